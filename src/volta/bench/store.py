"""The run folder: a manifest, one folder per finished cell, failures apart.

A cell is there whole or not at all: it is written under a temporary name, synced and renamed. Records and predictions
carry checksums; what does not match them is set aside, never used. Nothing is read or written through a link.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from filelock import FileLock, Timeout

from volta.bench.cell_metrics import TEST, VAL, EvalSet, metrics_of
from volta.bench.records import (
    COST_METRICS,
    MANIFEST_FILE,
    RECORD_FILE,
    Cell,
    CellRecord,
    Manifest,
    scoring_fingerprint,
)
from volta.core.checksummed import FileKind, encode_object, read_object, sha256_of, write_object
from volta.core.errors import InputError, StoreError
from volta.core.files import (
    hash_file,
    inside,
    is_temp_file,
    lock_file,
    read_file,
    remove_temp_files,
    remove_tree,
    sync_folder,
    temp_folder,
    write_text,
)
from volta.core.types import Array
from volta.data.arrays import read_npz

REMEDY = "run volta bench once more to compute it"
_TABLES = ("probs", "sets")
_NEEDED = {"ood": ("ood_score",), "test": ("probs", "labels", "uncertainty")}
_KINDS = {"labels": "iu", "probs": "f", "uncertainty": "fiu", "ood_score": "fiu", "sets": "biu", "id": "iuUS"}


def pack_arrays(arrays: Mapping[str, Array]) -> bytes:
    """Return an npz with fixed time stamps, so that equal arrays give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), part.getvalue())
    return buffer.getvalue()


def read_predictions(path: Path, names: Collection[str] | None = None) -> dict[str, Array]:
    """Return the arrays, all of them or those named that there are, each as a cell's can be."""
    try:
        arrays = read_npz(path, wanted=None if names is None else names.__contains__)
        by_set: dict[str, dict[str, Array]] = {}
        for key, values in arrays.items():
            set_name, _, kind = key.rpartition("/")
            by_set.setdefault(set_name, {})[kind] = values
        for set_name, parts in by_set.items():
            _check_set(set_name, parts, whole=names is None)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}; {REMEDY}") from error
    except InputError as error:
        raise StoreError(f"{path} is damaged ({error}); {REMEDY}") from error
    return arrays


def _check_set(name: str, parts: Mapping[str, Array], *, whole: bool) -> None:
    kind = VAL if name == VAL else EvalSet(name).kind
    for part, values in parts.items():
        if values.dtype.kind not in _KINDS.get(part, "") or values.ndim != 1 + (part in _TABLES):
            raise InputError(f"{name}/{part} has shape {values.shape} and {values.dtype}")
    if len({len(values) for values in parts.values()}) > 1:
        raise InputError(f"the arrays of {name} have different numbers of rows")
    needed = ("probs", "labels") if kind == VAL else _NEEDED["ood" if kind == "ood" else "test"]
    if whole and (missing := [part for part in needed if part not in parts]):
        raise InputError(f"{name} has no {missing[0]}")


MANIFEST = "manifest.json"
RECORD = "record.json"
PREDICTIONS = "predictions.npz"
PROGRESS_FILE = FileKind("note of a cell's progress", 1, "delete it", max_bytes=1 << 12)
_FAILURE_BYTES = 1 << 24
_FIRST = frozenset({"cells", "locks"})
"""What a run makes before its manifest."""


@dataclass(frozen=True)
class _Progress:
    epoch: int
    max_epochs: int


@dataclass(frozen=True)
class RunStore:
    """A run folder on disk."""

    root: Path

    def folder(self, name: Literal["cells", "networks", "figures", "damaged", "locks"]) -> Path:
        """Return the folder of finished cells, of networks that cells share, of a report's figures for print, of cells
        whose files do not match their checksums, or of locks, which the system frees when their holder dies.
        """
        return inside(self.root, name)

    def sheet_path(self, task: str) -> Path:
        """Where the contact sheet of a task's corruptions is, if it has any."""
        return inside(self.root, "corruptions", f"{task}.png")

    def check_usable(self) -> None:
        """Raise if the folder exists and is not a run folder; touches nothing."""
        if not self.root.exists():
            return
        if not self.root.is_dir():
            raise StoreError(f"--out {self.root} is a file; name a folder")
        if not self.has_manifest and not self._was_begun():
            raise StoreError(
                f"--out {self.root} is not empty and has no {MANIFEST}, so it is not a run folder; name another folder"
            )

    def _was_begun(self) -> bool:
        """Whether a folder without a manifest is empty, or a run's: killed before it had one, or with that deleted."""
        names = {path.name for path in self.root.iterdir() if not is_temp_file(path.name)}
        return names <= _FIRST or (names >= _FIRST and self.folder("cells").is_dir() and self.folder("locks").is_dir())

    def create(self) -> None:
        """Make the folder and sweep what killed processes left in it, or say why it cannot be made or written."""
        try:
            for folder in (self.root, self.folder("locks"), self.folder("cells")):
                folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
            remove_temp_files(self.root, deep=True)
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"--out {self.root} cannot be written: {reason}; name another folder") from error

    def read_manifest(self) -> Manifest:
        """Return the manifest, or say that this is no run folder."""
        if not self.has_manifest:
            raise StoreError(f"{self.root} is not a run folder: it has no {MANIFEST}; make one with: volta bench TASK")
        return read_object(inside(self.root, MANIFEST), MANIFEST_FILE, Manifest)

    @property
    def has_manifest(self) -> bool:
        """Whether a run was made here; a link in the manifest's place is refused."""
        return inside(self.root, MANIFEST).is_file()

    def known_manifest(self) -> Manifest | None:
        """Return the manifest; None where there is no run yet."""
        return self.read_manifest() if self.has_manifest else None

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        write_object(inside(self.root, MANIFEST), MANIFEST_FILE, manifest.stored)

    def manifest_lock(self) -> FileLock:
        """Return the lock to hold while the manifest is read, changed and written."""
        return lock_file(self.root, "locks", "manifest.lock")

    def try_lock(self, cell: Cell) -> FileLock | None:
        """Return the held lock of a cell, or None if another process is at work on it."""
        lock = lock_file(self.root, "locks", f"{cell.folder}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock

    def write_progress(self, cell: Cell, epoch: int, max_epochs: int) -> None:
        """Note how far a cell in work has come, for other processes to read; losing it costs nothing."""
        path = self._progress_path(cell)
        with suppress(OSError):
            path.write_bytes(encode_object(PROGRESS_FILE, _Progress(epoch, max_epochs)))

    def clear_progress(self, cell: Cell) -> None:
        """Forget the note of a cell that is no longer in work."""
        self._progress_path(cell).unlink(missing_ok=True)

    def read_progress(self, cell: Cell) -> tuple[int, int] | None:
        """Return (epoch, of how many) of a cell in work, if it is in training."""
        try:
            progress = read_object(self._progress_path(cell), PROGRESS_FILE, _Progress)
            return progress.epoch, progress.max_epochs
        except OSError:
            # A note that another process is just writing is none.
            return None

    def _progress_path(self, cell: Cell) -> Path:
        return inside(self.root, "locks", f"{cell.folder}.progress")

    def cell_file(self, cell: Cell, name: str) -> Path:
        """Return the path of a finished cell's file."""
        return inside(self.root, "cells", cell.folder, name)

    def _failure_path(self, cell: Cell) -> Path:
        return inside(self.root, "failures", f"{cell.folder}.txt")

    def is_done(self, cell: Cell) -> bool:
        """Whether the cell is finished."""
        return self.cell_file(cell, RECORD).is_file()

    def write_cell(self, record: CellRecord, arrays: dict[str, Array]) -> CellRecord:
        """Store a finished cell, whole or not at all; return its record with the checksum of its predictions.

        The caller holds the cell's lock.
        """
        cell = record.cell
        for leftover in self.folder("cells").glob(f".part-{cell.folder}-*"):
            remove_tree(leftover)
        with temp_folder(self.folder("cells"), f"{cell.folder}-") as temporary:
            with (temporary / PREDICTIONS).open("wb") as file:
                file.write(pack_arrays(arrays))
                file.flush()
                os.fsync(file.fileno())
            record = replace(record, predictions=hash_file(temporary / PREDICTIONS))
            write_object(temporary / RECORD, RECORD_FILE, record)
            temporary.chmod(0o755)
            temporary.rename(inside(self.root, "cells", cell.folder))
            sync_folder(self.folder("cells"))
        self._failure_path(cell).unlink(missing_ok=True)
        return record

    def replace_record(self, record: CellRecord) -> None:
        """Write a finished cell's record anew."""
        write_object(self.cell_file(record.cell, RECORD), RECORD_FILE, record)

    def write_failure(self, cell: Cell, text: str) -> Path:
        """Keep what went wrong in a cell, apart from the finished ones."""
        path = self._failure_path(cell)
        write_text(path, text)
        return path

    def read_failure(self, cell: Cell) -> str:
        """Return what went wrong in a cell when it last failed; empty where it did not."""
        path = self._failure_path(cell)
        return read_file(path, _FAILURE_BYTES).decode(errors="replace") if path.is_file() else ""

    def failure(self, cell: Cell) -> Path | None:
        """Return where the traceback of an unfinished cell's last failure is, if it failed."""
        path = self._failure_path(cell)
        return path if path.is_file() and not self.is_done(cell) else None

    def read_record(self, cell: Cell) -> CellRecord:
        """Return a finished cell's record."""
        path = self.cell_file(cell, RECORD)
        record = read_object(path, RECORD_FILE, CellRecord)
        if record.cell != cell:
            raise RECORD_FILE.error(path, f"is the record of another cell ({record.cell.label})")
        return record

    def read_arrays(self, cell: Cell, names: Collection[str] | None = None) -> dict[str, Array]:
        """Return a finished cell's predictions by set and kind: all of them, or those named that there are.

        Predictions that the cell's record was not made of are refused.
        """
        return self.arrays_of(self.read_record(cell), names)

    def arrays_of(self, record: CellRecord, names: Collection[str] | None = None) -> dict[str, Array]:
        """Return what :meth:`read_arrays` does, of a cell whose record is at hand."""
        self.check_predictions(record)
        return read_predictions(self.cell_file(record.cell, PREDICTIONS), names)

    def has_predictions(self, cell: Cell) -> bool:
        """Whether a finished cell's predictions are there; tables of metrics can do without them."""
        return self.cell_file(cell, PREDICTIONS).exists()

    def check_predictions(self, record: CellRecord) -> None:
        """Refuse a cell whose stored predictions are not those that its record was made of."""
        path = self.cell_file(record.cell, PREDICTIONS)
        try:
            checksum = sha256_of(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}; {REMEDY}") from error
        if checksum != record.predictions:
            raise StoreError(f"{path} is not what its record was made of: its checksum is another one; {REMEDY}")

    def set_aside_damaged(self, cells: Iterable[Cell]) -> tuple[list[Cell], list[CellRecord]]:
        """Move finished cells whose files do not match their checksums out of the way.

        Returns those cells, and the records of the sound ones.
        """
        damaged, sound = [], []
        for cell in cells:
            if not inside(self.root, "cells", cell.folder).exists():
                continue
            if (record := self._intact_record(cell)) is not None:
                sound.append(record)
                continue
            damaged.append(cell)
            self.folder("damaged").mkdir(exist_ok=True)
            target = Path(tempfile.mkdtemp(prefix=f"{cell.folder}.", dir=self.folder("damaged")))
            (self.folder("cells") / cell.folder).rename(target / cell.folder)
        return damaged, sound

    def cells(self) -> Iterator[Cell]:
        """Walk the cells of the manifest's plan, in its order."""
        yield from self.read_manifest().cells

    def records(self) -> list[CellRecord]:
        """Return the records of all finished cells of the plan, in its order."""
        return [self.read_record(cell) for cell in self.cells() if self.is_done(cell)]

    def is_intact(self, cell: Cell) -> bool:
        """Whether a finished cell's files match their checksums."""
        return self._intact_record(cell) is not None

    def _intact_record(self, cell: Cell) -> CellRecord | None:
        try:
            record = self.read_record(cell)
            self.check_predictions(record)
        except OSError:
            return None
        return record


_MADE = ("split", "epochs", "best_epoch", "instruction_set")
RESULT_COLUMNS = ("task", "protocol", "method", "seed", "set", "metric", "value", *_MADE)
ResultRow: TypeAlias = tuple[str, str, str, int, str, str, float, str, str, str, str]


def write_results(store: RunStore, records: Iterable[CellRecord]) -> None:
    """Write ``results.csv``; equal results give equal bytes, timing metrics aside."""
    write_text(store.root / "results.csv", csv_text(RESULT_COLUMNS, result_rows(records)))


def result_rows(records: Iterable[CellRecord]) -> list[ResultRow]:
    """Return the tidy rows of finished cells, in a fixed order, each with what its value was made with."""
    rows: list[ResultRow] = []
    for record in records:
        cell, made = record.cell, _made(record)
        for eval_set, values in record.metrics.items():
            for metric, value in values.items():
                rows.append((cell.task, cell.protocol, cell.method, cell.seed, eval_set, metric, value, *made))
    return sorted(rows, key=lambda row: row[:6])


def _made(record: CellRecord) -> tuple[str, str, str, str]:
    """Return the draw of rows, the epochs and the best of them, a number for each network, and the instruction set."""
    drawn = record.split
    split = "fixed" if drawn.seed is None else f"seed {drawn.seed}"
    if drawn.fold is not None:
        split += f", fold {drawn.fold + 1} of {drawn.n_folds}"
    epochs, best = (" ".join(str(getattr(log, name)) for log in record.trainings) for name in ("epochs", "best_epoch"))
    return split, epochs, best, record.environment.instruction_set


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return CSV with a header; floats are written with all their digits, None as an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    # The writer itself writes floats with all their digits and None as nothing.
    writer.writerows(rows)
    return buffer.getvalue()


@dataclass(frozen=True)
class RunStatus:
    """The plan's cells by state; ``running`` maps a cell to (epoch, of how many) or None outside training."""

    done: list[Cell]
    running: dict[Cell, tuple[int, int] | None]
    failed: list[Cell]
    waiting: list[Cell]


def read_status(store: RunStore) -> RunStatus:
    """Return the state of every cell of the plan; a cell is running while some live process holds its lock."""
    status = RunStatus([], {}, [], [])
    for cell in store.cells():
        if store.is_done(cell):
            status.done.append(cell)
            continue
        lock = store.try_lock(cell)
        if lock is None:
            status.running[cell] = store.read_progress(cell)
            continue
        lock.release()
        (status.failed if store.failure(cell) else status.waiting).append(cell)
    return status


def current_records(
    store: RunStore, cells: Iterable[Cell], say: Callable[[str], object] | None = None
) -> list[CellRecord]:
    """Return the records of the finished ones of ``cells``, with metrics as today's code computes them.

    Records whose metrics other code computed are scored again and stored; nothing is trained or predicted. ``say``
    hears of it in a sentence. A cell whose predictions are not those that its record was made of is refused.
    """
    records = [store.read_record(cell) for cell in cells if store.is_done(cell)]
    for record in records:
        if store.has_predictions(record.cell):
            store.check_predictions(record)
    return rescore_stale(store, records, say)


def rescore_stale(
    store: RunStore, records: list[CellRecord], say: Callable[[str], object] | None = None
) -> list[CellRecord]:
    """Return ``records``, whose predictions were checked, with metrics as today's code computes them."""
    current = scoring_fingerprint()
    n_stale = sum(record.fingerprints.scoring != current for record in records)
    if n_stale and say is not None:
        say(f"the code of metrics has changed: computing those of {n_stale} cells again from their stored predictions")
    return [record if record.fingerprints.scoring == current else rescore(store, record) for record in records]


def recompute(store: RunStore) -> list[Cell]:
    """Score every finished cell again; return the cells whose values changed."""
    changed = []
    for cell in store.cells():
        if store.is_done(cell):
            record = store.read_record(cell)
            again = rescore(store, record)
            if (again.metrics, again.floored_rows) != (record.metrics, record.floored_rows):
                changed.append(cell)
    return changed


def rescore(store: RunStore, record: CellRecord) -> CellRecord:
    """Score a finished cell again from its predictions, and store the record if it differs.

    What was measured while the cell ran (latency, size, memory, training time) is kept.
    """
    near = [eval_set.name for eval_set in record.near_ood]
    metrics, floored = metrics_of(store.read_arrays(record.cell), near)
    metrics[TEST] |= {name: value for name, value in record.test.items() if name in COST_METRICS}
    fingerprints = replace(record.fingerprints, scoring=scoring_fingerprint())
    again = replace(record, metrics=metrics, floored_rows=floored, fingerprints=fingerprints)
    if again == record:
        return record
    try:
        store.replace_record(again)
    except OSError as error:
        raise StoreError(
            f"{store.root} holds metrics of other code and cannot be written: {error.strerror or error}; "
            "make the folder writable, or read it with the version that wrote it"
        ) from error
    # As stored: sets and metrics are then in the same order whether or not they were scored again just now.
    return store.read_record(record.cell)
