"""The errors VOLTA raises on purpose, each naming the argument and the next step, and the base of its warnings."""


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


class VoltaWarning(UserWarning):
    """Base of every warning of the package: what was asked is done, and something about it is to be known."""
