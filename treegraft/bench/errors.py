"""What `treegraft bench` refuses."""


class BenchError(ValueError):
    """A benchmark that cannot be run as asked; the text says what to do instead."""
