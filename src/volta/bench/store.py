"""The run folder: a manifest, one folder per finished cell, failures apart. Reads without torch.

A cell is there whole or not at all: it is written under a temporary name, synced and renamed. Records and predictions
carry checksums; what does not match them is set aside, never used.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from volta.bench.cells import Cell
from volta.bench.json_fields import JsonObject
from volta.bench.manifest import REMEDY as MANIFEST_REMEDY
from volta.bench.manifest import Manifest, RunSettings
from volta.bench.records import CellRecord
from volta.core.errors import StoreError
from volta.core.files import canonical_json, hash_file, hash_text, sync_folder, write_json, write_text
from volta.core.leftovers import part_folder, sweep
from volta.core.types import Array

MANIFEST = "manifest.json"
RECORD = "record.json"
PREDICTIONS = "predictions.npz"


@dataclass(frozen=True)
class RunStore:
    """A run folder on disk."""

    root: Path

    @property
    def cells_folder(self) -> Path:
        """Finished cells."""
        return self.root / "cells"

    @property
    def networks_folder(self) -> Path:
        """Trained networks shared between cells."""
        return self.root / "networks"

    def sheet_path(self, task: str) -> Path:
        """Where the contact sheet of a task's corruptions is, if it has any."""
        return self.root / "corruptions" / f"{task}.png"

    @property
    def failures_folder(self) -> Path:
        """What went wrong in cells that did not finish."""
        return self.root / "failures"

    @property
    def damaged_folder(self) -> Path:
        """Cells whose files do not match their checksums, set aside."""
        return self.root / "damaged"

    @property
    def locks_folder(self) -> Path:
        """Who is at work on what; the operating system frees a lock when its holder dies."""
        return self.root / "locks"

    def check_usable(self) -> None:
        """Raise if the folder exists and is not a run folder; touches nothing."""
        if not self.root.exists():
            return
        if not self.root.is_dir():
            raise StoreError(f"--out {self.root} is a file; name a folder")
        if any(self.root.iterdir()) and not (self.root / MANIFEST).is_file():
            raise StoreError(
                f"--out {self.root} is not empty and has no {MANIFEST}, so it is not a run folder; name another folder"
            )

    def create(self) -> None:
        """Make the folder and sweep what killed processes left in it, or say why it cannot be made or written."""
        try:
            for folder in (self.root, self.locks_folder, self.cells_folder):
                folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
            sweep(self.root, deep=True)
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"--out {self.root} cannot be written: {reason}; name another folder") from error

    def read_manifest(self) -> Manifest:
        """Return the manifest, or say that this is no run folder."""
        path = self.root / MANIFEST
        if not path.is_file():
            raise StoreError(f"{self.root} is not a run folder: it has no {MANIFEST}; make one with: volta bench TASK")
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise StoreError(f"{path} is damaged ({error}); {MANIFEST_REMEDY}") from error
        return Manifest.from_json(value, path)

    def settled(self) -> RunSettings | None:
        """Return what a run in this folder has settled for all its cells; None where there is no run yet."""
        return self.read_manifest().config if (self.root / MANIFEST).is_file() else None

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        write_json(self.root / MANIFEST, manifest.to_json())

    def manifest_lock(self) -> FileLock:
        """Return the lock to hold while the manifest is read, changed and written."""
        return FileLock(self.locks_folder / "manifest.lock")

    def try_lock(self, cell: Cell) -> FileLock | None:
        """Return the held lock of a cell, or None if another process is at work on it."""
        lock = FileLock(self.locks_folder / f"{cell.folder}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock

    def write_progress(self, cell: Cell, epoch: int, max_epochs: int) -> None:
        """Note how far a cell in work has come, for other processes to read; losing it costs nothing."""
        with suppress(OSError):
            self._progress_path(cell).write_text(f"{epoch} {max_epochs}", encoding="ascii")

    def clear_progress(self, cell: Cell) -> None:
        """Forget the note of a cell that is no longer in work."""
        self._progress_path(cell).unlink(missing_ok=True)

    def read_progress(self, cell: Cell) -> tuple[int, int] | None:
        """Return (epoch, of how many) of a cell in work, if it is in training."""
        try:
            epoch, max_epochs = self._progress_path(cell).read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return None
        return int(epoch), int(max_epochs)

    def _progress_path(self, cell: Cell) -> Path:
        return self.locks_folder / f"{cell.folder}.progress"

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell is finished."""
        return (self.cells_folder / cell.folder / RECORD).is_file()

    def write_cell(self, record: CellRecord, arrays: dict[str, Array]) -> CellRecord:
        """Store a finished cell, whole or not at all; return its record with the checksum of its predictions.

        The caller holds the cell's lock.
        """
        cell = record.cell
        for leftover in self.cells_folder.glob(f".part-{cell.folder}-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        with part_folder(self.cells_folder, f"{cell.folder}-") as temporary:
            with (temporary / PREDICTIONS).open("wb") as file:
                file.write(pack_arrays(arrays))
                file.flush()
                os.fsync(file.fileno())
            record = replace(record, predictions=hash_file(temporary / PREDICTIONS))
            write_json(temporary / RECORD, sealed(record.to_json()))
            temporary.chmod(0o755)
            temporary.rename(self.cells_folder / cell.folder)
            sync_folder(self.cells_folder)
        (self.failures_folder / f"{cell.folder}.txt").unlink(missing_ok=True)
        return record

    def replace_record(self, record: CellRecord) -> None:
        """Write a finished cell's record anew."""
        write_json(self.cells_folder / record.cell.folder / RECORD, sealed(record.to_json()))

    def write_failure(self, cell: Cell, text: str) -> Path:
        """Keep what went wrong in a cell, apart from the finished ones."""
        path = self.failures_folder / f"{cell.folder}.txt"
        write_text(path, text)
        return path

    def failure(self, cell: Cell) -> Path | None:
        """Return where the traceback of an unfinished cell's last failure is, if it failed."""
        path = self.failures_folder / f"{cell.folder}.txt"
        return path if path.is_file() and not self.is_done(cell) else None

    def read_record(self, cell: Cell) -> CellRecord:
        """Return a finished cell's record."""
        path = self.cells_folder / cell.folder / RECORD
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            sound = value == sealed(value)
        except (OSError, ValueError, AttributeError) as error:
            raise StoreError(f"{path} cannot be read: {error}; run volta bench again to compute it anew") from error
        if not sound:
            raise StoreError(f"{path} does not match its checksum; run volta bench again to compute it anew")
        return CellRecord.from_json(value, path)

    def read_arrays(self, cell: Cell, names: Collection[str] | None = None) -> dict[str, Array]:
        """Return a finished cell's predictions by set and kind: all of them, or those named that there are."""
        path = self.cells_folder / cell.folder / PREDICTIONS
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files if names is None or name in names}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise StoreError(f"{path} cannot be read: {error}; run volta bench again to compute it anew") from error

    def set_aside_damaged(self, cells: list[Cell]) -> list[Cell]:
        """Move finished cells whose files do not match their checksums out of the way; return them."""
        there = [cell for cell in cells if (self.cells_folder / cell.folder).exists()]
        damaged = [cell for cell in there if not self.is_intact(cell)]
        for cell in damaged:
            self.damaged_folder.mkdir(exist_ok=True)
            target = Path(tempfile.mkdtemp(prefix=f"{cell.folder}.", dir=self.damaged_folder))
            (self.cells_folder / cell.folder).rename(target / cell.folder)
        return damaged

    def cells(self) -> Iterator[Cell]:
        """Walk the cells of the manifest's plan, in its order."""
        yield from self.read_manifest().cells

    def records(self) -> list[CellRecord]:
        """Return the records of all finished cells of the plan, in its order."""
        return [self.read_record(cell) for cell in self.cells() if self.is_done(cell)]

    def is_intact(self, cell: Cell) -> bool:
        """Whether a finished cell's files match their checksums."""
        try:
            return self.read_record(cell).predictions == hash_file(self.cells_folder / cell.folder / PREDICTIONS)
        except OSError:
            return False


def sealed(record: JsonObject) -> JsonObject:
    """Return the record with a checksum over everything else in it."""
    rest = {name: value for name, value in record.items() if name != "checksum"}
    return {**rest, "checksum": hash_text(canonical_json(rest))}


def pack_arrays(arrays: dict[str, Array]) -> bytes:
    """Return an npz with fixed time stamps, so that equal arrays give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), part.getvalue())
    return buffer.getvalue()
