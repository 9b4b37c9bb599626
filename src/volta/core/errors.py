"""The errors VOLTA raises on purpose; each message names the argument and the next step."""


class VoltaError(Exception):
    """Base of every error raised on purpose; the command line turns it into one line and exit code 2."""


class InputError(VoltaError, ValueError):
    """An argument is not what it has to be."""


class PredictionError(InputError):
    """A method's prediction holds what no prediction can."""


class NotFittedError(VoltaError, AttributeError):
    """A method was used before ``fit``."""


class MissingDataError(VoltaError, FileNotFoundError):
    """A data set, weights file or optional package is not there."""


class StoreError(VoltaError, OSError):
    """A run folder cannot be read or written as asked."""


class NoRoomError(StoreError):
    """A disk takes no more data."""
