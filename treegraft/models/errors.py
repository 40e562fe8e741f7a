"""What can go wrong before a run: every message says what was given, why it fails, and what to do next."""


class ModelError(RuntimeError):
    """A model that cannot be used. Base of the errors below."""


class DeviceError(ModelError):
    """A device or dtype that this machine cannot use."""


class FetchError(ModelError):
    """A model that could not be fetched. Nothing half-made is left behind."""


class OfflineError(FetchError):
    """The package index cannot be reached."""


class LoadError(ModelError):
    """A model that cannot be loaded, or a drafter that does not fit its target."""


class PromptError(ModelError, ValueError):
    """A prompt that a model cannot be asked."""
