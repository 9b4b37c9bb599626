"""A fitted classifier as one file with a checksum, and back. Nothing is pickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, StoreError
from volta.data.column_encoding import ColumnSchema, TableSchema
from volta.estimators.deciding import CALIBRATION_TYPES
from volta.estimators.explain import Reference, TrainingRows
from volta.estimators.row_classifier import FitRecord
from volta.methods.base import Method
from volta.methods.registry import METHODS
from volta.methods.saving import MODEL_FILE, load_methods, parameters_of, save_methods
from volta.networks.recipe import TrainingLog

if TYPE_CHECKING:
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.images import VoltaImageClassifier
    from volta.estimators.post_hoc import PostHocClassifier
    from volta.estimators.trusted import TrustedClassifier

Holder: TypeAlias = Literal["VoltaClassifier", "TrustedClassifier", "VoltaImageClassifier", "PostHocClassifier"]
_HELD: dict[Holder, str] = {
    "VoltaClassifier": "features",
    "TrustedClassifier": "another library's model",
    "VoltaImageClassifier": "images",
    "PostHocClassifier": "a network's outputs",
}

STATE_TYPES = (*CALIBRATION_TYPES, TrainingRows, Reference, FitRecord, TrainingLog, TableSchema, ColumnSchema)


def file_path(path: Path | str) -> Path:
    """Return the path of a file to be written, ~ being home; a folder is refused before anything is computed."""
    found = Path(path).expanduser()
    if found.is_dir():
        raise InputError(f"path {path} is a folder; pass the name of a file in it")
    return found


def save_classifier(
    classifier: Any, path: Path | str, methods: list[Method], state: dict[str, Any], **changed: Any
) -> None:
    """Write fitted methods, their classifier's parameters but those ``changed``, the learned state and the labels."""
    path = file_path(path)
    parameters = classifier.get_params(deep=False) | changed
    if not isinstance(classifier.random_state, int | np.integer | None):
        parameters["random_state"] = classifier.seed_
    named = {name: _plain(value) for name, value in parameters.items()}
    classes = classifier.classes_
    labels = classes if classes.dtype.kind in "iufb" else plain_classes(classes)
    extra = {"parameters": named, "state": state, "classes": labels}
    if classes.dtype.kind == "O":
        extra["class_type"] = "object"
    save_methods(methods, registered_name(methods[0]), path, extra, extra_types=STATE_TYPES)


def load_classifier(path: Path, wanted: Holder) -> tuple[list[Method], dict[str, Any], dict[str, Any], NDArray[Any]]:
    """Return what :func:`save_classifier` wrote, in its order; a file of another class is refused with its name."""
    path = path.expanduser()
    methods, extra = load_methods(path, METHODS, extra_types=STATE_TYPES)
    if "parameters" not in extra:
        raise InputError(f"{path} holds a bare method, not a classifier; load it with volta.methods.saving")
    with MODEL_FILE.parsing(path):
        found = _holder(extra["state"])
    if found != wanted:
        shell = (
            " in Python: the volta command takes classifiers of features alone" if wanted == "VoltaClassifier" else ""
        )
        raise InputError(f"{path} holds a classifier of {_HELD[found]}; load it with {found}.load{shell}")
    with MODEL_FILE.parsing(path):
        parameters = {name: _parameter(value) for name, value in extra["parameters"].items()}
        return methods, parameters, extra["state"], np.asarray(extra["classes"], dtype=extra.get("class_type"))


def load(path: Path | str) -> VoltaClassifier | VoltaImageClassifier | PostHocClassifier | TrustedClassifier:
    """Return the classifier in a saved file, whichever of our classes it is of.

    >>> import tempfile
    >>> from volta import VoltaClassifier, load
    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> classifier = VoltaClassifier("linear").fit(rows, (rows[:, 0] > 0).astype(int))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     classifier.save(f"{folder}/model.safetensors")
    ...     type(load(f"{folder}/model.safetensors")).__name__
    'VoltaClassifier'
    """
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.images import VoltaImageClassifier
    from volta.estimators.post_hoc import PostHocClassifier
    from volta.estimators.trusted import TrustedClassifier

    path = Path(path).expanduser()
    found = _holder_of(path)
    for kind in (VoltaImageClassifier, PostHocClassifier, TrustedClassifier):
        if kind.__name__ == found:
            return kind.load(path)
    return VoltaClassifier.load(path)


def load_row_classifier(path: Path) -> VoltaClassifier | TrustedClassifier:
    """Return the classifier of table rows in a saved file; one of anything else is refused by name."""
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.trusted import TrustedClassifier

    path = path.expanduser()
    return TrustedClassifier.load(path) if _holder_of(path) == "TrustedClassifier" else VoltaClassifier.load(path)


def _holder_of(path: Path) -> Holder:
    """Return the class of the classifier in a saved file."""
    _, extra = load_methods(path, METHODS, extra_types=STATE_TYPES)
    if "parameters" not in extra:
        raise InputError(f"{path} holds a bare method, not a classifier; load it with volta.methods.saving")
    with MODEL_FILE.parsing(path):
        return _holder(extra["state"])


def restore_state(classifier: Any, classes: NDArray[Any], state: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Give a classifier what a file holds; a name in ``state`` that it does not learn is refused."""
    classifier.classes_ = classes
    for name, value in state.items():
        if name not in names:
            raise StoreError(f"the file holds {name!r}, which a {type(classifier).__name__} does not learn")
        setattr(classifier, name, value)
    classifier.policy_ = classifier.calibration_.policy(**state["policy_settings_"])


def _holder(state: Mapping[str, Any]) -> Holder:
    if "backbone_name" in state:
        return "VoltaImageClassifier"
    if "members" not in state:
        return "PostHocClassifier"
    return "TrustedClassifier" if "probes" in state else "VoltaClassifier"


def registered_name(method: Method) -> str:
    """Return the name a method's class has in METHODS; a file can hold no other."""
    for name, kind in METHODS.items():
        if kind is type(method):
            return name
    raise InputError(
        f"method is a {type(method).__name__}, which METHODS does not list; only the package's own methods can be "
        "saved, since loading a file must not run code that it names: use it from Python without saving, or in a "
        "benchmark"
    )


def plain_classes(classes: NDArray[Any]) -> list[Any]:
    """Return the labels as plain numbers or strings, or say that they are neither."""
    if classes.dtype.kind in "iufb":
        return list(classes.tolist())
    if not all(isinstance(label, str) for label in classes):
        raise InputError("labels are neither all numbers nor all strings; make them so before fit to save them")
    if ended := [label for label in classes if label.endswith("\0")]:
        raise InputError(f"label {ended[0]!r} ends in a NUL character, which NumPy cuts off; rename it before fit")
    return [str(label) for label in classes]


def _plain(value: Any) -> Any:
    """Return a parameter as what a file can hold: a method by its name, a dictionary of labels as its items."""
    if isinstance(value, Method):
        return {"method": registered_name(value), "parameters": parameters_of(value)}
    return {"items": [list(item) for item in value.items()]} if isinstance(value, Mapping) else value


def _parameter(value: Any) -> Any:
    """Return what :func:`_plain` was given."""
    if not isinstance(value, dict):
        return value
    if "items" in value:
        return dict(value["items"])
    return METHODS[value["method"]](**value["parameters"])
