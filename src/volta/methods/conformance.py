"""Whether a method keeps the contract, tried on a small made task: for methods of one's own."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from volta.core.checks import check_prediction, check_probs
from volta.core.errors import InputError, VoltaError
from volta.core.seeding import rng
from volta.core.types import Array, FitData, Prediction, Split
from volta.methods.base import Method
from volta.methods.registry import METHODS, find_method, name_of
from volta.methods.saving import count_values, load_methods, parameters_of, save_methods
from volta.networks.recipe import Budget, ProtocolName
from volta.networks.trainer import Trainer

N_CLASSES = 4
_N_FEATURES = 8
_N_ROWS = 240
_N_ALONE = 8
_ARRAYS = ("probs", "uncertainty", "ood_score")


def check_method(method: Method) -> None:
    """Fit ``method`` on a small made task, and refuse it by the first promise of a method that it breaks.

    On every protocol that it names: it gives a `Prediction` of the right shapes, finite, with probabilities that sum to
    one; the same bytes with the same seed and from call to call; the same numbers for a row alone and among others,
    which one that draws at test time, as MC Dropout does, may break; what it learns can be counted and, for an entry of
    ``METHODS``, saved and loaded. Its name makes an equal method. ``method`` itself stays unfitted.

    >>> from volta import find_method
    >>> check_method(find_method("knn(k=5)").method)
    """
    if not isinstance(method, Method) or "__dataclass_fields__" not in vars(type(method)):
        kind = type(method).__name__
        raise InputError(f"method is a {kind}; pass one whose class extends volta.Method and has @dataclass")
    with _blaming(method):
        for protocol in method.protocols:
            _check_protocol(method, protocol)
        name = name_of(method)
        if parameters_of(find_method(name).method) != parameters_of(method):
            raise InputError(f"{method.title} goes by the name {name}, which makes one with other parameters")


def _check_protocol(method: Method, protocol: ProtocolName) -> None:
    data, test = _made_task()

    def fitted() -> Method:
        return copy.deepcopy(method).fit(data, Trainer(seed=1, protocol=protocol, budget=Budget(max_epochs=3)))

    first = fitted()
    given = _prediction(first, test)
    _check_same(method, given, _prediction(first, test), "a second call of predict")
    _check_same(method, given, _prediction(fitted(), test), "a second fit with the same seed")
    # In float64, as the classifiers ask: in float32 the last digits depend on how many rows are multiplied at once.
    rows = test.astype(np.float64)
    together = first.predict(rows)
    alone = [first.predict(rows[[row]]) for row in range(_N_ALONE)]
    for name in _ARRAYS:
        parts = np.concatenate([getattr(one, name) for one in alone])
        if not np.allclose(getattr(together, name)[:_N_ALONE], parts, rtol=1e-4, atol=1e-6):
            raise InputError(f"{method.title} gives other {name} for a row alone than among others")
    count_values(first)
    if type(method) in METHODS.values():
        _check_same(method, given, _prediction(_saved(first), test), "the method saved and loaded")


def _made_task() -> tuple[FitData, Array]:
    """Return fit rows, clouds around a centre a class, and test rows of which half are far from all."""
    random = rng(0, "conformance")
    centres = random.normal(0.0, 3.0, (N_CLASSES, _N_FEATURES))

    def split(n_rows: int) -> Split:
        labels = np.arange(n_rows, dtype=np.int64) % N_CLASSES
        return Split((centres[labels] + random.normal(size=(n_rows, _N_FEATURES))).astype(np.float32), labels)

    data = FitData(split(_N_ROWS), split(_N_ROWS // 2), split(_N_ROWS // 2), n_classes=N_CLASSES)
    near = split(2 * _N_ALONE).inputs
    return data, np.concatenate([near, 10.0 * near]).astype(np.float32)


def _prediction(method: Method, rows: Array) -> Prediction:
    found = check_prediction(method.title, method.predict, rows, N_CLASSES)
    check_probs(found.probs, f"{method.title}: probs")
    return found


def _check_same(method: Method, first: Prediction, other: Prediction, what: str) -> None:
    for name in _ARRAYS:
        if not np.array_equal(getattr(first, name), getattr(other, name)):
            raise InputError(f"{method.title}: {what} gives other {name}; draw from the seed it is given, if at all")


def _saved(method: Method) -> Method:
    (name,) = (name for name, kind in METHODS.items() if kind is type(method))
    with tempfile.TemporaryDirectory() as folder:
        save_methods([method], name, Path(folder) / "method.safetensors")
        return load_methods(Path(folder) / "method.safetensors", METHODS)[0][0]


@contextmanager
def _blaming(method: Method) -> Iterator[None]:
    """Name the method in whatever goes wrong; what is warned of on the made task tells nobody anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except VoltaError as error:
            told = str(error)
            raise InputError(told if told.startswith(method.title) else f"{method.title}: {told}") from error
        except Exception as error:
            raise InputError(f"{method.title} fails ({type(error).__name__}: {error})") from error
