"""The run folder: a manifest, one folder per finished cell, failures apart. Reads without torch.

A cell is there whole or not at all: it is written under a temporary name, synced and renamed.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from volta.bench.cells import SCHEMA, Cell
from volta.core.errors import StoreError
from volta.core.files import hash_file, sync_folder, write_json, write_text
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

    @property
    def failures_folder(self) -> Path:
        """What went wrong in cells that did not finish."""
        return self.root / "failures"

    @property
    def damaged_folder(self) -> Path:
        """Cells whose files do not match their checksums, set aside."""
        return self.root / "damaged"

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
        """Make the folder, or say why it cannot be made or written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise StoreError(
                f"--out {self.root} cannot be written: {error.strerror or error}; name another folder"
            ) from error

    def read_manifest(self) -> dict[str, Any]:
        """Return the manifest, or say that this is no run folder."""
        path = self.root / MANIFEST
        if not path.is_file():
            raise StoreError(
                f"{self.root} is not a run folder: it has no {MANIFEST}; make one with: volta bench TASK --out DIR"
            )
        try:
            manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise StoreError(
                f"{path} is damaged ({error}); finished cells are safe, run volta bench again to rebuild it"
            ) from error
        if manifest.get("schema") != SCHEMA:
            raise StoreError(
                f"{path} has schema {manifest.get('schema')}, this volta reads {SCHEMA}; use another --out"
            )
        return manifest

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest."""
        write_json(self.root / MANIFEST, manifest)

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell is finished."""
        return (self.cells_folder / cell.folder / RECORD).is_file()

    def write_cell(self, cell: Cell, record: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Store a finished cell; it appears whole or not at all."""
        self.cells_folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".part-", dir=self.cells_folder))
        try:
            (temporary / PREDICTIONS).write_bytes(pack_arrays(arrays))
            record = {**record, "checksum": hash_file(temporary / PREDICTIONS)}
            _sync_file(temporary / PREDICTIONS)
            write_json(temporary / RECORD, record)
            temporary.chmod(0o755)
            try:
                temporary.rename(self.cells_folder / cell.folder)
            except OSError:
                if not self.is_done(cell):
                    raise
            sync_folder(self.cells_folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        (self.failures_folder / f"{cell.folder}.txt").unlink(missing_ok=True)

    def write_failure(self, cell: Cell, text: str) -> Path:
        """Keep what went wrong in a cell, apart from the finished ones."""
        path = self.failures_folder / f"{cell.folder}.txt"
        write_text(path, text)
        return path

    def read_record(self, cell: Cell) -> dict[str, Any]:
        """Return a finished cell's record."""
        path = self.cells_folder / cell.folder / RECORD
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        return record

    def read_arrays(self, cell: Cell) -> dict[str, Array]:
        """Return a finished cell's predictions, by set and kind."""
        path = self.cells_folder / cell.folder / PREDICTIONS
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error

    def set_aside_damaged(self, cells: list[Cell]) -> list[Cell]:
        """Move finished cells whose files are broken out of the way; return them."""
        damaged = [cell for cell in cells if self.is_done(cell) and not self._intact(cell)]
        for cell in damaged:
            self.damaged_folder.mkdir(exist_ok=True)
            target = Path(tempfile.mkdtemp(prefix=f"{cell.folder}.", dir=self.damaged_folder))
            (self.cells_folder / cell.folder).rename(target / cell.folder)
        return damaged

    def sweep(self) -> None:
        """Remove half-written cells that a killed process left behind."""
        for path in self.cells_folder.glob(".part-*"):
            shutil.rmtree(path, ignore_errors=True)

    def cells(self) -> Iterator[Cell]:
        """Walk the cells of the manifest's plan, in its order."""
        for value in self.read_manifest()["cells"]:
            yield Cell(**value)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all finished cells of the plan, in its order."""
        return [self.read_record(cell) for cell in self.cells() if self.is_done(cell)]

    def _intact(self, cell: Cell) -> bool:
        try:
            record = self.read_record(cell)
            return bool(record["checksum"] == hash_file(self.cells_folder / cell.folder / PREDICTIONS))
        except (StoreError, OSError, KeyError):
            return False


def pack_arrays(arrays: dict[str, Array]) -> bytes:
    """Return an npz with fixed time stamps, so that equal arrays give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), part.getvalue())
    return buffer.getvalue()


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
