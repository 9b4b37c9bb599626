"""Anyone's fitted model as bytes that run no code when they are read: skops, or the format of its own library."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError, StoreError, VoltaWarning, warn_user
from volta.estimators.base_models import BaseModel, PreparedModel, library_of, name_of, split_steps, unfrozen

Bytes = NDArray[np.uint8]

TRUSTED = ("sklearn", "numpy", "scipy")
"""The packages whose classes a file may name without being trusted for it."""


class StorageWarning(VoltaWarning):
    """A model cannot be stored whole, or only be read where its types are trusted; the message says what to do."""


@dataclass(frozen=True, eq=False)
class LightGBMModel:
    """A LightGBM booster from its text, asked as the classifier was that it came from."""

    booster: Any

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Return (n, K) probabilities."""
        found = np.asarray(self.booster.predict(rows))
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found


def _dump_lightgbm(model: Any) -> bytes:
    booster = model.booster if isinstance(model, LightGBMModel) else model.booster_
    return bytes(booster.model_to_string(), "utf-8")


def _load_lightgbm(data: bytes) -> Any:
    import lightgbm

    return LightGBMModel(lightgbm.Booster(model_str=data.decode()))


def _dump_xgboost(model: Any) -> bytes:
    return bytes(model.get_booster().save_raw("ubj"))


def _load_xgboost(data: bytes) -> Any:
    import xgboost

    model = xgboost.XGBClassifier()
    model.load_model(bytearray(data))
    return model


def _dump_catboost(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        return path.read_bytes()


def _load_catboost(data: bytes) -> Any:
    import catboost

    return catboost.CatBoostClassifier().load_model(blob=data)


FORMATS: dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "lightgbm": (_dump_lightgbm, _load_lightgbm),
    "xgboost": (_dump_xgboost, _load_xgboost),
    "catboost": (_dump_catboost, _load_catboost),
}
"""How models of libraries with a safe format of their own are written and read, by the library's name."""


def format_of(model: Any) -> str:
    """Return the library whose format a model is stored in, or skops for all others."""
    library = "lightgbm" if isinstance(model, LightGBMModel) else library_of(model)
    return library if library in FORMATS else "skops"


def split_pipeline(estimator: Any) -> tuple[Any, Any]:
    """Return the earlier steps and the model of a pipeline that ends in a model of a library of its own."""
    prepare, last = split_steps(estimator)
    return (None, estimator) if format_of(last) == "skops" else (prepare, last)


def dump_model(model: BaseModel) -> dict[str, Any]:
    """Return a base model as plain values and bytes; raise where it cannot be stored."""
    estimator = unfrozen(model.estimator)
    if model.response in ("function", "network"):
        raise InputError(
            f"estimator is the {model.response} {name_of(estimator)}, which no file holds; pass save(path, "
            f"model=False), which stores all but the {model.response}, and load(path, estimator={model.response})"
        )
    prepare, last = split_pipeline(estimator)
    kind = format_of(last)
    return {
        "format": kind,
        "prepare": None if prepare is None else _as_array(_dump_skops(prepare)),
        "model": _as_array(_dump_skops(last) if kind == "skops" else FORMATS[kind][0](last)),
    }


def load_model(stored: dict[str, Any], trusted: Sequence[str]) -> Any:
    """Return the estimator that :func:`dump_model` stored; skops builds types of ``TRUSTED`` and ``trusted`` alone."""
    kind, data = stored["format"], stored["model"].tobytes()
    if kind == "skops":
        return _load_skops(data, trusted)
    if kind not in FORMATS:
        raise StoreError(f"the file holds a model in the format {kind!r:.40}, which is none of {', '.join(FORMATS)}")
    try:
        model = FORMATS[kind][1](data)
    except ImportError as error:
        raise StoreError(f"the file holds a model of {kind}, which is not installed; install it") from error
    if stored["prepare"] is None:
        return model
    return PreparedModel(_load_skops(stored["prepare"].tobytes(), trusted), model)


def _as_array(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise StoreError(
            "scikit-learn models are stored by skops, which is not installed: pip install 'volta-uq[trust]'; or pass "
            "save(path, model=False)"
        ) from error
    return skops.io


def _dump_skops(estimator: Any) -> bytes:
    skops = _skops()
    try:
        return bytes(skops.dumps(estimator))
    except Exception as error:
        # skops raises what its many writers raise.
        raise InputError(
            f"{name_of(estimator)} cannot be stored by skops ({type(error).__name__}: {error}); pass save(path, "
            "model=False), which stores the trust layer alone"
        ) from error


def _load_skops(data: bytes, trusted: Sequence[str]) -> Any:
    skops = _skops()
    needed = [name for name in skops.get_untrusted_types(data=data) if not _is_known_class(name)]
    if unknown := [name for name in needed if name not in trusted]:
        raise StoreError(
            f"the file asks for code of the types {', '.join(unknown)}; if you trust it, load it with "
            f"load(path, trusted={unknown})"
        )
    return skops.loads(data, trusted=skops.get_untrusted_types(data=data))


def _is_known_class(name: str) -> bool:
    """Whether a name is that of a class, not a function, of scikit-learn, NumPy or SciPy."""
    module, _, kind = name.rpartition(".")
    if module.partition(".")[0] not in TRUSTED:
        return False
    try:
        return isinstance(getattr(import_module(module), kind, None), type)
    except ImportError:
        return False


def warn_of_storage(estimator: Any) -> None:
    """Name what of an estimator a file cannot hold, or holds only for a reader who trusts its types."""
    if isinstance(estimator, FunctionType) or not hasattr(estimator, "get_params"):
        warn_user(
            f"estimator {name_of(estimator)} cannot be stored; save(path, model=False) will store the trust layer "
            "alone, and load(path, estimator=...) check that it gets the same model",
            StorageWarning,
        )
        return
    _, last = split_pipeline(estimator)
    parts = [estimator, *estimator.get_params(deep=True).values()]
    foreign = sorted(set(_foreign(part for part in parts if part is not last)))
    if foreign:
        warn_user(
            f"estimator holds {', '.join(foreign)}, of other packages than {', '.join(TRUSTED)}: a saved file will be "
            f"read by load(path, trusted=[...]) alone, if it can be stored at all; or pass save(path, model=False)",
            StorageWarning,
        )


def _foreign(parts: Iterable[Any]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, type) or not (hasattr(part, "get_params") or isinstance(part, FunctionType)):
            continue
        kind = part if isinstance(part, FunctionType) else type(part)
        if kind.__module__.partition(".")[0] not in TRUSTED:
            yield f"{kind.__module__}.{kind.__qualname__}"


def dump_rows(rows: Any) -> dict[str, Any]:
    """Return rows as plain values: an array, or a data frame as Arrow's bytes with the name of its package."""
    if isinstance(rows, np.ndarray):
        return {"array": rows}
    import pyarrow

    package = library_of(rows)
    table = rows
    if package == "pandas":
        table = pyarrow.Table.from_pandas(rows, preserve_index=False)
    elif package == "polars":
        table = rows.to_arrow()
    stream = io.BytesIO()
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return {"package": package, "arrow": _as_array(stream.getvalue())}


def load_rows(stored: dict[str, Any]) -> Any:
    """Return what :func:`dump_rows` was given."""
    if "array" in stored:
        return stored["array"]
    import pyarrow

    table = pyarrow.ipc.open_stream(stored["arrow"].tobytes()).read_all()
    if stored["package"] == "pandas":
        return table.to_pandas()
    if stored["package"] == "polars":
        import polars

        return polars.from_arrow(table)
    return table
