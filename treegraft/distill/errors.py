"""What can go wrong for a user of `treegraft distill`."""


class DistillError(ValueError):
    """Training that cannot start or go on; the text says what was given, what is allowed and what to do."""
