"""Downloads that resume, try mirrors in turn, and count only if size and hash are right."""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from volta.core.errors import MissingDataError, StoreError
from volta.core.files import sync_folder

OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Called as ``progress(file_name, bytes_done, bytes_in_all)``."""

_CHUNK_BYTES = 1 << 16
_HASH_CHUNK_BYTES = 1 << 22
_NUMBER = "[0-9]{1,18}"
_PASSING = frozenset({408, 416, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Checksum:
    """A digest in hex and the algorithm that made it."""

    algorithm: str
    digest: str

    def of(self, path: Path) -> str:
        """Return the digest of a file under this algorithm."""
        digest = hashlib.new(self.algorithm, usedforsecurity=False)
        with path.open("rb") as file:
            while chunk := file.read(_HASH_CHUNK_BYTES):
                digest.update(chunk)
        return digest.hexdigest()


class _CutError(Exception):
    """The transfer stopped; the same address may give the rest."""


class _UselessError(Exception):
    """The address does not give the file."""


def download(
    urls: Sequence[str],
    target: Path,
    *,
    size: int,
    checksum: Checksum,
    progress: OnProgress | None = None,
    timeout: float = 30.0,
    attempts: int = 3,
    pause: float = 1.0,
) -> Path:
    """Bring a file to ``target`` from the first of ``urls`` that gives exactly the expected bytes.

    Bytes that arrived are kept in ``TARGET.part``, so a broken transfer goes on where it stopped, in this call, in a
    later one, or from another mirror. An address is left after ``attempts`` tries in a row that brought nothing new,
    at once if it answers with an error or with another file. ``target`` appears only when size and hash are right.
    """
    if target.is_file() and not mismatch(target, size, checksum):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock

    part = target.with_name(f"{target.name}.part")
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.is_file() and not mismatch(target, size, checksum):
            return target
        failures = []
        for url in urls:
            try:
                _fetch(url, part, size, checksum, progress, timeout, attempts, pause)
            except _UselessError as error:
                failures.append(f"{url}: {error}")
                continue
            part.replace(target)
            sync_folder(target.parent)
            return target
    kept = f"; {part.stat().st_size:,} bytes are kept, run it again to go on" if part.is_file() else ""
    raise MissingDataError(
        f"{target.name} could not be downloaded ({'; '.join(failures)}){kept}\n"
        f"fetch it by other means ({size:,} bytes, {checksum.algorithm} {checksum.digest}) and put it at {target}"
    )


def mismatch(path: Path, size: int, checksum: Checksum) -> str:
    """Return what is wrong with a file's size or hash, or an empty text."""
    actual = path.stat().st_size
    if actual != size:
        return f"it has {actual:,} bytes, expected {size:,}"
    digest = checksum.of(path)
    if digest != checksum.digest:
        return f"its {checksum.algorithm} is {digest}, expected {checksum.digest}"
    return ""


def _fetch(
    url: str,
    part: Path,
    size: int,
    checksum: Checksum,
    progress: OnProgress | None,
    timeout: float,
    attempts: int,
    pause: float,
) -> None:
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise _UselessError("only http and https addresses are followed")
    fruitless = 0
    resumed = _length(part) > 0
    while True:
        before = _length(part)
        try:
            _transfer(url, part, size, progress, timeout)
        except _CutError as error:
            fruitless = 0 if _length(part) > before else fruitless + 1
            if fruitless >= attempts:
                raise _UselessError(str(error)) from error
            time.sleep(pause * 2**fruitless)
            resumed = True
            continue
        except _UselessError:
            if _length(part) == size:
                part.unlink()
            raise
        problem = mismatch(part, size, checksum)
        if not problem:
            return
        part.unlink()
        if not resumed:
            raise _UselessError(problem)
        # The kept bytes may have been another file's; one whole transfer tells.
        resumed = False


def _transfer(url: str, part: Path, size: int, progress: OnProgress | None, timeout: float) -> None:
    have = _length(part)
    if have > size:
        part.unlink()
        have = 0
    if have == size:
        return
    if shutil.disk_usage(part.parent).free < size - have:
        raise StoreError(
            f"{part.parent} has too little space for {size - have:,} more bytes; free some or name another --data"
        )
    headers = {"User-Agent": "volta-uq", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)
            if error.code in _PASSING:
                raise _CutError(f"HTTP {error.code} {error.reason}") from error
            raise _UselessError(f"HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(str(getattr(error, "reason", error)) or type(error).__name__) from error
    except ValueError as error:
        # A redirect may name an address that is none.
        raise _UselessError(f"it answers with an address that cannot be followed ({error})") from error
    with response:
        start = _start(response, have, size)
        with part.open("ab" if start else "wb") as file:
            _copy(response, file, start, size, lambda done: progress and progress(part.stem, done, size))


def _start(response: Any, have: int, size: int) -> int:
    """Return the offset at which the answer's bytes begin, having checked the size of the file they are of."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        found = re.fullmatch(rf"bytes ({_NUMBER})-{_NUMBER}/({_NUMBER}|\*)", response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != have:
            raise _UselessError("it answers a range request with another range")
        whole = found[2]
    else:
        have, whole = 0, response.headers.get("Content-Length") or "*"
    if whole != "*" and not re.fullmatch(_NUMBER, whole):
        raise _UselessError(f"it sends a file of {whole[:40]!r} bytes, which is no number")
    if whole != "*" and int(whole) != size:
        raise _UselessError(f"it sends a file of {int(whole):,} bytes, expected {size:,}")
    return have


def _copy(response: Any, file: IO[bytes], start: int, size: int, report: Callable[[int], object]) -> None:
    done = start
    report(done)
    while done < size:
        try:
            chunk = response.read(min(_CHUNK_BYTES, size - done))
        except http.client.IncompleteRead as error:
            chunk = error.partial
        except (OSError, http.client.HTTPException) as error:
            raise _CutError(f"connection lost after {done:,} of {size:,} bytes ({error})") from error
        if not chunk:
            raise _CutError(f"connection closed after {done:,} of {size:,} bytes")
        try:
            file.write(chunk)
        except OSError as error:
            raise StoreError(f"{file.name} cannot be written: {error.strerror or error}") from error
        done += len(chunk)
        report(done)
    if response.read(1):
        raise _UselessError(f"it sends more than the expected {size:,} bytes")


def _length(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
