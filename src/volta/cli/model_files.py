"""What the commands about a model of one's own share: the model from its file, its rows from tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from volta.core.errors import InputError, MissingDataError

if TYPE_CHECKING:
    from volta.data.formats.feature_tables import FeatureTable
    from volta.estimators.classifier import VoltaClassifier


def load_model(path: Path) -> VoltaClassifier:
    """Return the classifier of a file, or say what is wrong with it."""
    import numpy as np

    from volta.estimators.classifier import VoltaClassifier
    from volta.methods.saving import MODEL_FILE

    if not path.is_file():
        raise MissingDataError(
            f"MODEL is {path}, which does not exist; make one: volta fit DATA --label COLUMN --out {path}"
        )
    classifier = VoltaClassifier.load(path)
    # Anyone can seal a file: one row tells whether what it learned goes together, before a command relies on it.
    with MODEL_FILE.making(path), warnings.catch_warnings():
        # What is said of that row is of no use to anyone.
        warnings.simplefilter("ignore")
        classifier.decide(np.zeros((1, classifier.n_features_in_)))
    return classifier


def model_rows(
    classifier: VoltaClassifier, data: Path, label: str | None, ids: list[str] | None, *, labelled: bool = False
) -> FeatureTable:
    """Open the rows of a table as the model wants them."""
    from volta.data.formats.feature_tables import Roles, open_features

    known = classifier.fit_record_.label
    roles = Roles(label, tuple(ids or ()), (known,) if known else ())
    names = getattr(classifier, "feature_names_in_", None)
    return open_features(
        data,
        roles,
        names=None if names is None else [str(name) for name in names],
        n_features=classifier.n_features_in_,
        labelled=labelled,
    )


def check_new_file(path: Path, force: bool, *reads: Path | None) -> None:
    """Refuse a file that cannot be written, that the command ``reads``, or, unless told to, that is there already.

    All before any work is done.
    """
    if path.is_dir():
        raise InputError(f"--out is {path}, which is a folder; name a file in it")
    place = next(folder for folder in path.absolute().parents if folder.exists())
    if not place.is_dir():
        raise InputError(f"--out is {path}, but {place} is a file, not a folder; name another folder")
    if not os.access(place, os.W_OK):
        raise InputError(f"--out is {path}, but {place} cannot be written; name another folder")
    check_not_read(path, *reads)
    if path.exists() and not force:
        raise InputError(f"--out is {path}, which exists; name another file, or pass --force to replace it")


def check_not_read(path: Path, *reads: Path | None) -> None:
    """Refuse to write to a file that the command reads, whatever it was told."""
    if any(read is not None and path.exists() and read.exists() and path.samefile(read) for read in reads):
        raise InputError(f"--out is {path}, which this command reads; name another file")


def check_carried(given: Mapping[str, object], made: Mapping[str, object]) -> None:
    """Refuse columns that go along under a name that the result needs."""
    taken = sorted(set(given) & set(made))
    if taken:
        raise InputError(f"--id is {taken[0]!r}, which is a column of the result; give the column another name")
