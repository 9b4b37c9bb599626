"""Evaluations as one HTML page: a run folder is made for it, read, and forgotten."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from volta.bench.own.predictions import OwnModel
from volta.bench.own.run import Place, add_predictions
from volta.bench.records import OWN
from volta.bench.store import RunStore
from volta.core.errors import MissingDataError
from volta.core.files import write_text


def write_page(path: Path, models: Sequence[OwnModel], near: Collection[str], n_resamples: int, title: str) -> Path:
    """Write the page of the models, with their statistics, and return its path."""
    try:
        from volta.report.build import make_page
        from volta.report.run import load_run
        from volta.report.statistics import compute_statistics
    except ModuleNotFoundError as error:
        raise MissingDataError(f"a report needs {error.name}: pip install 'volta-uq[bench]'") from error
    with tempfile.TemporaryDirectory(prefix="volta-") as folder:
        store = RunStore(Path(folder) / "run")
        add_predictions(store, models, Place("predictions", OWN), near=near)
        run = load_run(store)
        text = make_page(run, compute_statistics(store, run.tables, n_resamples), draw=False, title=title)
    write_text(path, text)
    return path
