"""A table of three classes on disk, and a model fitted on it from the shell."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from volta.cli.main import app

NAMES = ("length", "width", "weight, g")
CLASSES = np.array(["ash", "birch", "oak"])


@dataclass(frozen=True)
class Shell:
    """A folder with ``train.csv``, ``new.csv`` and ``model.safetensors``, and the rows in them."""

    folder: Path
    model: Path
    train: Path
    new: Path
    new_rows: np.ndarray
    new_labels: np.ndarray

    def run(self, *words: object) -> Result:
        return run(*words)


def run(*words: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = CLASSES[np.arange(n_rows) % 3]
    centres = {"ash": (0.0, 0.0, 0.0), "birch": (3.0, 0.0, 1000.0), "oak": (0.0, 3.0, -1000.0)}
    rows = np.array([centres[label] for label in labels]) + random.normal(size=(n_rows, 3)) * (1.0, 1.0, 500.0)
    return rows, labels


def write_csv(path: Path, rows: np.ndarray, labels: np.ndarray | None, names=NAMES) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["tree", *names, *(() if labels is None else ("species",))])
        for place, row in enumerate(rows.tolist()):
            writer.writerow([f"t{place}", *row, *(() if labels is None else (labels[place],))])
    return path


@pytest.fixture(scope="session")
def shell(tmp_path_factory) -> Shell:
    folder = tmp_path_factory.mktemp("shell")
    train = write_csv(folder / "train.csv", *make_rows(600, 0))
    new_rows, new_labels = make_rows(60, 1)
    new_rows[5] *= 1000.0
    new = write_csv(folder / "new.csv", new_rows, None)
    model = folder / "model.safetensors"
    options = ("--label", "species", "--id", "tree", "--max-epochs", 8, "--keep-rows")
    done = run("fit", train, *options, "--out", model, "--max-error", 0.2)
    assert done.exit_code == 0, done.output
    return Shell(folder, model, train, new, new_rows, new_labels)
