"""Run folders that were damaged, edited or set as a trap, read, listed and scored again as the commands do.

Whatever was done to a folder: nothing beside it changes, and the cells that nothing was done to are still there.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.fuzz.harness import Category
from tests.fuzz.mutator import mutate
from tests.fuzz.own_files import resealed
from tests.stats.builders import make_store
from volta.bench.records import MANIFEST_FILE, RECORD_FILE
from volta.bench.store import MANIFEST, PREDICTIONS, RECORD, RunStore, current_records, read_status, recompute
from volta.core.errors import StoreError

_SOUND = b"sound"
_PRECIOUS = b"precious"


@cache
def _kept() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Return one sound run folder, from which each case is copied."""
    place = tempfile.TemporaryDirectory(prefix="volta-fuzz-")
    store = make_store(Path(place.name) / "run", {"volta": 3.0, "energy": 1.0}, seeds=(1, 2))
    recompute(store)
    store.write_progress(next(store.cells()), 1, 2)
    return place, store.root


def _read(path: Path) -> str:
    """Do to a copy of the folder what the case's number says, then use it; return what is left of it."""
    number = path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="volta-fuzz-") as place:
        run, outside = Path(place) / "a" / "run", Path(place) / "outside"
        shutil.copytree(_kept()[1], run)
        outside.mkdir()
        (outside / "precious").write_bytes(_PRECIOUS)
        touched = set() if number == _SOUND else _harm(run, outside, random.Random(number))
        sound = {name: data for name, data in _cells(run).items() if name not in touched}
        try:
            return repr(_use(RunStore(run)))
        finally:
            if [path.name for path in outside.iterdir()] != ["precious"] or sorted(os.listdir(place)) != [
                "a",
                "outside",
            ]:
                raise RuntimeError("something was made beside the folder")
            if (outside / "precious").read_bytes() != _PRECIOUS or os.listdir(Path(place) / "a") != ["run"]:
                raise RuntimeError("something beside the folder was changed")
            if not sound.items() <= _cells(run).items():
                raise RuntimeError("a finished cell is lost")


def _use(store: RunStore) -> object:
    """Read, list, score and sort out a folder; refuse it only after each was tried."""
    refused: list[StoreError] = []
    found: list[object] = []

    def attempt(what: object) -> None:
        try:
            found.append(what())  # type: ignore[operator]
        except StoreError as error:
            refused.append(error)

    attempt(store.create)
    attempt(lambda: len(read_status(store).done))
    attempt(lambda: [store.write_progress(cell, 1, 2) for cell in store.cells()])
    attempt(lambda: [record.metrics for record in current_records(store, list(store.cells()))])
    attempt(lambda: len(recompute(store)))
    attempt(lambda: store.set_aside_damaged(list(store.cells())))
    if refused:
        raise refused[0]
    return found


def _harm(run: Path, outside: Path, rng: random.Random) -> set[str]:
    """Damage, edit, exchange, remove or link one thing; return the names of the cells that it belongs to."""
    files = sorted(path for path in run.rglob("*") if path.is_file() or path.is_dir())
    path = rng.choice(files)
    if rng.random() < 0.4:
        path = rng.choice([run / MANIFEST, *run.glob(f"cells/*/{RECORD}"), *run.glob(f"cells/*/{PREDICTIONS}")])
    touched = {name for name in os.listdir(run / "cells") if path in (run / "cells", *_within(run, name))}
    touched = set(os.listdir(run / "cells")) if path == run / "cells" else touched
    fate = rng.randrange(6)
    if fate == 0 and path.is_file():
        path.write_bytes(mutate(path.read_bytes(), rng))
    elif fate == 1 and path.name in (MANIFEST, RECORD):
        kind = MANIFEST_FILE if path.name == MANIFEST else RECORD_FILE
        path.write_bytes(resealed(kind)(path.read_bytes(), rng))
    elif fate == 2 and path.is_file():
        other = rng.choice([file for file in files if file.is_file()])
        path.write_bytes(other.read_bytes())
    elif fate == 3:
        _remove(path)
        path.symlink_to(rng.choice((outside, outside / "precious", outside / "new", run / "cells", run)))
    elif fate == 4:
        was_file = path.is_file()
        _remove(path)
        path.mkdir() if was_file else path.write_bytes(b"")
    else:
        _remove(path)
    return touched


def _within(run: Path, name: str) -> list[Path]:
    return [run / "cells" / name, *(run / "cells" / name).rglob("*")]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _cells(run: Path) -> dict[str, bytes]:
    """Return the predictions of each cell by the name of its folder."""
    return {path.parent.name: path.read_bytes() for path in (run / "cells").glob(f"*/{PREDICTIONS}") if path.is_file()}


def _number(data: bytes, rng: random.Random) -> bytes:
    return str(rng.randrange(1 << 62)).encode()


RUN_FOLDERS: dict[str, Category] = {
    "run-folder": Category("x", lambda: [_SOUND], _read, mutate=_number, share=0.5, mends=True),
}
"""Whole folders: the file's bytes are the seed of what is done to a folder."""
