"""The errors and warnings that VOLTA raises on purpose, and errors of parsers turned into them."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class VoltaError(Exception):
    """Base of every error raised on purpose; the command line turns it into one line and exit code 2."""


class InputError(VoltaError, ValueError):
    """Invalid argument; the message names it, what came, and what to do."""


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
    """Base of every warning of the package: the call succeeded, with a caveat that the message names."""


_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside the package that led here."""
    level, frame = 1, sys._getframe()
    while (caller := frame.f_back) is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, caller
    warnings.warn(message, category, stacklevel=level)


FEW_NAMES = 15
"""At most so many names stand in an error."""


def unknown_name(kind: str, name: str, known: Iterable[str], see: str = "") -> InputError:
    """Return the error for a ``kind`` of thing with no such name: the nearest of ``known``, or all where they are few.

    >>> print(unknown_name("method", "temprature", ["volta", "temperature"]))
    there is no method 'temprature'; did you mean temperature?
    >>> print(unknown_name("method", "x", ["volta", "temperature"], "see: volta methods"))
    there is no method 'x'; the methods are: volta, temperature (see: volta methods)
    """
    names = list(known)
    near = get_close_matches(name.lower(), names, n=3)
    more = f" ({see})" if see else ""
    if near:
        nearest = " or ".join(part for part in (", ".join(near[:-1]), near[-1]) if part)
        return InputError(f"there is no {kind} {name!r}; did you mean {nearest}?{more}")
    shown = ", ".join(names[:FEW_NAMES]) + (f" and {len(names) - FEW_NAMES} more" if len(names) > FEW_NAMES else "")
    return InputError(f"there is no {kind} {name!r}; the {kind}s are: {shown}{more}")


_SHOWN = 300
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""What the system says of a disk that takes no more data."""


@contextmanager
def parse_errors(path: Path | str, problem: str, remedy: str = "it is damaged; get it again") -> Iterator[None]:
    """Turn every exception but our own into an error "PATH PROBLEM (reason); REMEDY".

    Parsers of archives, arrays, images and graphs raise more kinds than their documentation lists, among them
    ``zlib.error``, ``TokenError``, ``struct.error``, ``RecursionError`` and Rust panics, which are no ``Exception``.
    """
    try:
        yield
    except (VoltaError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except FileNotFoundError as error:
        raise MissingDataError(f"{error.filename or path} does not exist; check the path") from error
    except MemoryError as error:
        raise InputError(f"{path} {problem} (it needs more memory than there is); {remedy}") from error
    except OSError as error:
        if error.errno in NO_ROOM:
            raise no_room(Path(error.filename or path), error) from error
        raise InputError(f"{path} {problem} ({reason(error)}); {remedy}") from error
    except BaseException as error:
        raise InputError(f"{path} {problem} ({reason(error)}); {remedy}") from error


def no_room(path: Path, error: OSError) -> NoRoomError:
    """Return the error for a file that could not be written."""
    return NoRoomError(
        f"{path} cannot be written: {error.strerror or error}; make room or name another folder, then try again"
    )


def reason(error: BaseException) -> str:
    """Return an exception in one line, its kind first where the text alone says little."""
    text = " ".join(str(error).split())[:_SHOWN]
    return text if isinstance(error, OSError | ValueError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
