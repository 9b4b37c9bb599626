"""What the commands about a model of one's own share: the model from its file, its rows from tables."""

from __future__ import annotations

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


def check_new_file(path: Path, force: bool) -> None:
    """Refuse to replace a file unless told to, before any work is done."""
    if path.exists() and not force:
        raise InputError(f"--out is {path}, which exists; name another file, or pass --force to replace it")


def check_carried(given: Mapping[str, object], made: Mapping[str, object]) -> None:
    """Refuse columns that go along under a name that the result needs."""
    taken = sorted(set(given) & set(made))
    if taken:
        raise InputError(f"--id is {taken[0]!r}, which is a column of the result; give the column another name")
