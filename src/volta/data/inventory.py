"""What the data folder holds: get what is missing, list what is there, verify that it is intact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from volta.core.checksummed import FileKind
from volta.core.errors import InputError, MissingDataError, StoreError, VoltaError, parse_errors
from volta.core.files import hash_file, read_file, stored_bytes
from volta.data.arrays import read_npz
from volta.data.download import (
    RECORD,
    WEIGHTS,
    Archive,
    OnProgress,
    check_zip,
    download,
    mismatch,
    safe_name,
    unpack_tar,
)
from volta.data.images import list_images
from volta.data.lookup import DAMAGED, imported_tasks, verify_imported
from volta.data.task import data_root
from volta.data.tasks import TASKS

ARCHIVES: dict[str, Archive] = {
    archive.name: archive for task in TASKS.values() for archive in (*task.archives, *task.optional_archives)
} | {archive.name: archive for archive in WEIGHTS}


def archive_names(name: str) -> tuple[str, ...]:
    """Return the archives that a task or an archive name stands for."""
    downloadable = {task.name: task for task in TASKS.values() if task.archives}
    if name in downloadable:
        return tuple(archive.name for archive in downloadable[name].archives)
    if name in ARCHIVES:
        return (name,)
    names = ", ".join([*downloadable, *ARCHIVES])
    raise InputError(f"there is nothing to get under the name {name!r}; the names are: {names}")


_NOTE = FileKind("note of an unpacked archive", 1, "get the archive again")
State = Literal["ready", "archive only", "partial download", "stand-in", "missing"]


@dataclass(frozen=True)
class InventoryItem:
    """One set of the data folder: an official archive, a feature file or an imported task."""

    name: str
    title: str
    state: State
    path: Path
    n_bytes: int
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """The outcome of verifying one item; ``problems`` is empty if it is intact."""

    name: str
    path: Path
    checked: str
    problems: tuple[str, ...]


def get_data(
    name: str,
    root: Path | None = None,
    *,
    progress: OnProgress | None = None,
    keep_archives: bool = False,
    again: bool = False,
) -> list[Path]:
    """Get the archives that a task or archive name stands for into the data folder and unpack them; return their paths.

    What is there already is left alone unless ``again``. An archive that lies in the folder, put there by hand or by a
    broken run, is verified and used instead of a download. A tar is deleted once unpacked unless ``keep_archives``.
    """
    folder = data_root(root)
    archives = [ARCHIVES[part] for part in archive_names(name)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_get(archive, folder, progress, keep_archives, again) for archive in archives]
    except OSError as error:
        if isinstance(error, VoltaError):
            raise
        reason = error.strerror or error
        raise StoreError(f"{folder} cannot be written: {reason}; name another folder with --data") from error


def list_data(root: Path | None = None) -> list[InventoryItem]:
    """Return what the data folder holds and lacks: archives, feature files, imported tasks; nothing is hashed."""
    folder = data_root(root)
    items = [_inventory_item(name, archive, folder) for name, archive in ARCHIVES.items()]
    items += [
        InventoryItem(f"features/{path.stem}", "frozen features", "ready", path, path.stat().st_size)
        for path in sorted((folder / "features").glob("*.npz"))
    ]
    for task in imported_tasks(folder):
        place = folder / "imported" / task.name
        note = task.title if task.title.startswith(DAMAGED) else ""
        items.append(InventoryItem(task.name, task.title, "ready", place, stored_bytes(place), note))
    return items


def verify_data(root: Path | None = None, names: Sequence[str] = ()) -> list[Verdict]:
    """Read and hash what the data folder holds (or the named items) and compare with what it has to be."""
    folder = data_root(root)
    items = [item for item in list_data(folder) if item.state != "missing"]
    known = {item.name for item in items}
    for name in names:
        if name not in known:
            raise MissingDataError(
                f"{name} is not under {folder}\n"
                f"there is: {', '.join(sorted(known)) or 'nothing'} (see: volta data list)"
            )
    return [_verify(item, folder) for item in items if not names or item.name in names]


def _get(archive: Archive, root: Path, progress: OnProgress | None, keep: bool, again: bool) -> Path:
    if _is_there(archive, root) and not again:
        return archive.place(root)
    from filelock import FileLock

    root.mkdir(parents=True, exist_ok=True)
    # Over download and unpacking: who unpacks second would take away what the first has put in place.
    with FileLock(root / f".{archive.file}.get.lock"):
        if not again and _is_there(archive, root):
            # Another process has got it meanwhile.
            return archive.place(root)
        return _fetch(archive, root, progress, keep)


def _is_there(archive: Archive, root: Path) -> bool:
    place, file = archive.place(root), root / archive.file
    return place.exists() and not (place == file and mismatch(file, archive.size, archive.checksum))


def _fetch(archive: Archive, root: Path, progress: OnProgress | None, keep: bool) -> Path:
    place, file = archive.place(root), root / archive.file
    download(archive.urls, file, size=archive.size, checksum=archive.checksum, progress=progress)
    if file.suffix == ".zip":
        check_zip(file)
    if not archive.folder:
        return file
    origin = {"url": archive.urls[0], archive.checksum.algorithm: archive.checksum.digest}
    unpack_tar(file, root, archive.folder, origin)
    if not keep:
        file.unlink(missing_ok=True)
    return place


def _inventory_item(name: str, archive: Archive, root: Path) -> InventoryItem:
    place, file = archive.place(root), root / archive.file
    part = root / f"{archive.file}.part"
    there = [path for path in (root / stand_in for stand_in in archive.stand_ins) if path.is_file()]
    if place.exists():
        return InventoryItem(name, archive.title, "ready", place, stored_bytes(place))
    if file.is_file():
        return InventoryItem(
            name, archive.title, "archive only", file, stored_bytes(file), f"unpack it with: volta data get {name}"
        )
    if there:
        return InventoryItem(name, archive.title, "stand-in", there[0], stored_bytes(there[0]), _describe_zip(there[0]))
    if part.is_file():
        note = f"{part.stat().st_size:,} of {archive.size:,} bytes; resume with: volta data get {name}"
        return InventoryItem(name, archive.title, "partial download", part, stored_bytes(part), note)
    return InventoryItem(name, archive.title, "missing", place, 0, f"{archive.size:,} bytes: volta data get {name}")


def _describe_zip(path: Path) -> str:
    """Return what a zip of images holds, by its directory alone."""
    try:
        kinds = Counter(Path(name).suffix.lower() for name in list_images(path).names)
    except InputError as error:
        return str(error)
    held = " and ".join(f"{count:,} {kind} images" for kind, count in kinds.most_common()) or "no images"
    return f"{held} in place of the official archive"


def _verify(item: InventoryItem, root: Path) -> Verdict:
    archive, problem = ARCHIVES.get(item.name), ""
    if archive is not None and item.path.is_dir():
        return _verify_folder(item)
    if archive is not None and item.state == "partial download":
        checked, problem = "nothing", item.note
    elif archive is not None and item.state == "stand-in":
        checked, problem = "zip directory", _failure(lambda: check_zip(item.path))
    elif archive is not None:
        checked = f"size and {archive.checksum.algorithm}"
        problem = mismatch(item.path, archive.size, archive.checksum)
    elif item.name.startswith("features/"):
        checked, problem = "every array", _failure(lambda: read_npz(item.path))
    else:
        return Verdict(item.name, item.path, "SHA-256 of every file", tuple(verify_imported(root, item.name)))
    return Verdict(item.name, item.path, checked, (problem,) if problem else ())


@dataclass(frozen=True)
class _UnpackedFile:
    size: int
    sha256: str


@dataclass(frozen=True)
class _Unpacked:
    files: dict[str, _UnpackedFile]


def _verify_folder(item: InventoryItem) -> Verdict:
    path = item.path / RECORD
    if not path.is_file():
        problem = f"no {RECORD} next to the files, so they cannot be checked; get the archive again"
        return Verdict(item.name, item.path, "nothing", (problem,))
    try:
        data = read_file(path, _NOTE.max_bytes)
        with _NOTE.parsing(path):
            files = msgspec.json.decode(data, type=_Unpacked).files
        problems = [text for name, file in files.items() if (text := _problem(item.path, name, file))]
    except VoltaError as error:
        return Verdict(item.name, item.path, RECORD, (str(error),))
    return Verdict(item.name, item.path, "SHA-256 of every file", tuple(problems))


def _problem(folder: Path, name: str, expected: _UnpackedFile) -> str:
    file = folder / safe_name(name, folder / RECORD)
    # A damaged note may name what no file can be called.
    with parse_errors(folder / RECORD, "names a file that cannot be read", _NOTE.remedy):
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != expected.size or hash_file(file) != expected.sha256:
            return f"{name} has changed since it was unpacked"
    return ""


def _failure(check: Callable[[], object]) -> str:
    try:
        check()
    except InputError as error:
        return str(error)
    return ""
