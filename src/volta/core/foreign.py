"""Files that somebody else wrote: whatever a parser raises on them becomes one error that names file and remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from volta.core.errors import InputError, MissingDataError, NoRoomError, VoltaError

_SHOWN = 300
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""What the system says of a disk that takes no more data."""


@contextmanager
def reading(path: Path | str, problem: str, remedy: str = "it is damaged; get it again") -> Iterator[None]:
    """Turn every exception but our own into an error «PATH PROBLEM (reason); REMEDY».

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
