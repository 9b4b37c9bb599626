"""Checks of arguments, and rows and labels of any library as NumPy arrays; errors name the first bad row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.errors import InputError, PredictionError
from volta.core.files import row_chunks
from volta.core.types import Array, Prediction

Floats = NDArray[np.floating[Any]]

# Small enough for a chunk and its float64 copy to stay in cache, large enough to hide the cost of a call.
CHUNK_ELEMENTS = 1 << 17
FLOAT32_MAX = float(np.finfo(np.float32).max)


def sum_tolerance(dtype: np.dtype[Any], n_classes: int) -> float:
    """Return how far from 1 a row of probabilities may sum: max(100, K) · eps(dtype), within [1e-6, 1e-2].

    K float32 terms divided by their own float32 sum are off by at most about K · eps.
    """
    eps = float(np.finfo(dtype).eps)
    return min(1e-2, max(1e-6, max(100, n_classes) * eps))


def check_probs(probs: ArrayLike, name: str = "probs") -> Floats:
    """Return `probs` as an (n_samples, n_classes) float array whose rows are probability vectors.

    The array is read in row chunks and never copied when it is float32 or float64 already.
    """
    array = as_prob_array(probs, name)
    for _ in checked_row_chunks(array, name):
        pass
    return array


def as_prob_array(probs: ArrayLike, name: str = "probs") -> Floats:
    """Return `probs` as a two-dimensional real float array; the values are left to `checked_row_chunks`."""
    array = _as_real(probs, name)
    hint = "; for two classes pass np.column_stack([1 - p, p])" if array.ndim == 1 else ""
    _check_shape(array, name, 2, f"(n_samples, n_classes){hint}")
    if array.dtype.kind != "f" or array.dtype.itemsize > 8 or not array.dtype.isnative:
        return array.astype(np.float64)
    return array


def checked_row_chunks(array: Floats, name: str = "probs") -> Iterator[tuple[slice, Floats]]:
    """Yield (rows, contiguous chunk) over a probability array, each chunk checked while it is in cache.

    A chunk is float32 or float64; half-precision input is widened chunk by chunk.
    """
    n_samples, n_classes = array.shape
    tolerance = sum_tolerance(array.dtype, n_classes)
    step = max(1, CHUNK_ELEMENTS // n_classes)
    working = np.dtype(np.float32) if array.dtype.itemsize < 4 else array.dtype
    for start in range(0, n_samples, step):
        rows = slice(start, min(start + step, n_samples))
        chunk = np.ascontiguousarray(array[rows], dtype=working)
        sums = np.einsum("ij->i", chunk)
        # Comparisons are written so that NaN fails them.
        if not (chunk.min() >= 0 and abs(sums.max() - 1) <= tolerance and abs(sums.min() - 1) <= tolerance):
            _raise_for_probs(chunk, start, tolerance, name)
        yield rows, chunk


def _raise_for_probs(chunk: Floats, start: int, tolerance: float, name: str) -> None:
    sums = np.einsum("ij->i", chunk)
    bad_value: NDArray[np.bool_] = ~np.all(chunk >= 0, axis=1)
    bad = bad_value | ~(np.abs(sums - 1) <= tolerance)
    row = int(np.argmax(bad))
    where = f"{name} row {start + row}"
    if np.isnan(chunk[row]).any():
        column = int(np.argmax(np.isnan(chunk[row])))
        raise InputError(f"{where} holds NaN in column {column}; find what produced it, or drop the row")
    if bad_value[row]:
        column = int(np.argmax(~(chunk[row] >= 0)))
        raise InputError(f"{where} holds {chunk[row, column]:.6g} in column {column}; pass probabilities, not logits")
    total = float(chunk[row].sum(dtype=np.float64))
    remedy = "divide each row by its sum, in float64" if abs(total - 1) < 0.01 else "pass probabilities, not logits"
    raise InputError(f"{where} sums to {total:.9g} (allowed: 1 ± {tolerance:.2g}); {remedy}")


def check_labels(labels: ArrayLike, n_classes: int, name: str = "labels") -> NDArray[np.intp]:
    """Return `labels` as (n_samples,) integers in 0 … `n_classes` − 1; of two classes, True is class 1."""
    array = _as_array(labels, name)
    _check_shape(array, name, 1, "(n_samples,) class indices")
    if array.dtype.kind == "b" and n_classes == 2:
        return array.astype(np.intp)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} has dtype {array.dtype}; pass integer class indices ({name}.astype(int))")
    if array.min() < 0 or array.max() >= n_classes:
        row = int(np.argmax((array < 0) | (array >= n_classes)))
        raise InputError(
            f"{name} row {row} is {array[row]}; with {n_classes} classes they run from 0 to {n_classes - 1}"
        )
    return array.astype(np.intp, copy=False)


def check_scores(scores: ArrayLike, name: str = "scores") -> NDArray[np.float64]:
    """Return `scores` as (n_samples,) float64; ±inf is allowed because it orders, NaN is not."""
    array = _as_real(scores, name)
    _check_shape(array, name, 1, "(n_samples,), one score a row")
    values: NDArray[np.float64] = array.astype(np.float64, copy=False)
    missing = np.isnan(values)
    if missing.any():
        raise InputError(
            f'{name} row {int(np.argmax(missing))} is NaN; a score must order (use inf for "most uncertain")'
        )
    return values


def check_correct(correct: ArrayLike, name: str = "correct") -> NDArray[np.bool_]:
    """Return `correct` as (n_samples,) booleans; integers 0 and 1 are accepted."""
    array = _as_array(correct, name)
    _check_shape(array, name, 1, "(n_samples,), True where right")
    return _as_bool(array, name, "pass predicted == labels")


def check_sets(sets: ArrayLike, name: str = "sets") -> NDArray[np.bool_]:
    """Return `sets` as an (n_samples, n_classes) boolean membership array; 0 and 1 are accepted."""
    array = _as_array(sets, name)
    _check_shape(array, name, 2, "(n_samples, n_classes) membership")
    return _as_bool(array, name, "pass True where the class is in the set")


def check_weights(weights: ArrayLike, name: str = "weights") -> NDArray[np.float64]:
    """Return `weights` as an (n_samples,) float64 array of finite numbers of at least 0, not all of them 0."""
    array = _as_real(weights, name)
    _check_shape(array, name, 1, "(n_samples,)")
    values = array.astype(np.float64)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} row {row} is {values[row]}; pass finite numbers of at least 0")
    if not values.any():
        raise InputError(f"{name} are all 0, so that no row counts; pass some above 0, or none at all")
    return values


def check_features(
    features: ArrayLike, name: str = "features", *, remedy: str = "impute it or drop the row"
) -> NDArray[Any]:
    """Return `features` as a finite (n, d) or (n, channels, height, width) numeric array, uncopied.

    Values are read in row chunks, so a memory-mapped array is never loaded whole. `remedy` says what to do about a
    value that is not finite.
    """
    array = _as_real(features, name)
    if array.ndim not in (2, 4):
        raise InputError(
            f"{name} has shape {array.shape}; expected (n_samples, n_features) or (n_samples, channels, height, width)"
        )
    if array.size == 0:
        raise InputError(f"{name} is empty, shape {array.shape}; pass at least one row and one feature")
    if array.dtype.kind != "f":
        return array
    step = max(1, CHUNK_ELEMENTS * array.shape[0] // array.size)
    for start, chunk in zip(range(0, len(array), step), row_chunks(array, step), strict=True):
        # NaN fails every comparison, so that two passes without a copy tell whether anything is wrong.
        if not (float(chunk.max()) <= FLOAT32_MAX and float(chunk.min()) >= -FLOAT32_MAX):
            _raise_for_features(chunk, start, name, remedy)
    return array


def _raise_for_features(chunk: NDArray[Any], start: int, name: str, remedy: str) -> None:
    finite = np.isfinite(chunk)
    if not finite.all():
        row = int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
        value = chunk[row][~finite[row]].flat[0]
        where = f" in column {int(np.argmin(finite[row]))}" if chunk.ndim == 2 else ""
        raise InputError(f"{name} row {start + row} holds {value}{where}; {remedy}")
    large = np.abs(chunk) > FLOAT32_MAX
    row = int(np.argmax(large.reshape(len(large), -1).any(axis=1)))
    raise InputError(f"{name} row {start + row} is beyond float32's range, which networks use; scale it")


def check_same_length(**arrays: Sized) -> int:
    """Return the common number of rows of the named arrays."""
    (first, reference), *others = arrays.items()
    for name, array in others:
        if len(array) != len(reference):
            raise InputError(
                f"{name} has {len(array)} rows but {first} has {len(reference)}; pass one entry of {name} "
                f"for each row of {first}"
            )
    return len(reference)


def check_fraction(value: float, name: str) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < 1:
        raise InputError(f"{name} is {value}; expected a number strictly between 0 and 1")
    return number


def check_count(value: int, name: str, least: int = 1, most: int | None = None) -> int:
    """Return `value` as an integer of at least `least`, which is 0 or more, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} is {value!r}; expected an integer of at least {least}")
    if most is not None and value > most:
        raise InputError(f"{name} is {value}; expected at most {most:,}")
    return int(value)


def check_number(value: float, name: str, *, zero: bool = False, below: float = math.inf) -> float:
    """Return `value` as a finite float above 0, or of at least 0 with `zero`, and below `below`."""
    number = float(value) if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) else math.nan
    if not (0 < number < below or (zero and number == 0)):
        least = f"{'of at least' if zero else 'above'} 0"
        most = "" if math.isinf(below) else f" and below {below:g}"
        raise InputError(f"{name} is {value!r}; expected a finite number {least}{most}")
    return number


def refuse_mask(values: object, name: str) -> None:
    """Refuse a masked array with masked entries: NumPy's functions read the values below the mask as if they counted.

    >>> refuse_mask(np.ma.array([1.0, 2.0], mask=[False, False]), "probs")
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        n_masked = int(np.ma.getmaskarray(values).sum())
        raise InputError(f"{name} is a masked array with {n_masked} masked entries; drop or fill them ({name}.filled)")


def without_graph(values: Any) -> Any:
    """Return a PyTorch tensor as NumPy takes it: off its graph and device, bfloat16 as float32; all else as it is.

    >>> without_graph([1.0, 2.0])
    [1.0, 2.0]
    """
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    plain = values.detach().cpu()
    return plain.float() if str(plain.dtype) == "torch.bfloat16" else plain


def _as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    refuse_mask(values, name)
    try:
        # asarray would strip a memory map of its type, and with it of the care it is read with.
        return values if isinstance(values, np.memmap) else np.asarray(without_graph(values))
    except ValueError as error:
        raise InputError(f"{name} is not a rectangular array; pass rows of equal length") from error


def _check_shape(array: NDArray[Any], name: str, n_dims: int, expected: str) -> None:
    """Refuse an array of another number of dimensions, and an empty one."""
    if array.ndim != n_dims:
        raise InputError(f"{name} has shape {array.shape}; expected {expected}")
    if array.size == 0:
        needed = "one row" if n_dims == 1 else "one row and one class"
        raise InputError(f"{name} is empty, shape {array.shape}; pass at least {needed}")


def _as_real(values: ArrayLike, name: str) -> NDArray[Any]:
    array = _as_array(values, name)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} has dtype {array.dtype}; pass real numbers")
    return array


def _as_bool(array: NDArray[Any], name: str, remedy: str) -> NDArray[np.bool_]:
    if array.dtype.kind not in "biu":
        raise InputError(f"{name} has dtype {array.dtype}; {remedy}, as booleans")
    if array.dtype.kind == "b":
        return array
    if array.min() < 0 or array.max() > 1:
        outside = ((array < 0) | (array > 1)).reshape(len(array), -1).any(axis=1)
        row = int(np.argmax(outside))
        raise InputError(f"{name} row {row} holds a value other than 0 and 1; {remedy}")
    return array.astype(np.bool_)


Rows = TypeVar("Rows", bound=Sized)


def check_prediction(title: str, predict: Callable[[Rows], Prediction], rows: Rows, n_classes: int) -> Prediction:
    """Return ``predict(rows)``, a `Prediction` of as many rows and of ``n_classes``, or say what the method gave.

    Types and shapes alone are looked at: that values are finite was seen when the prediction was made.
    """
    try:
        found = predict(rows)
    except PredictionError as error:
        raise InputError(f"{title}: {error}") from error
    if not isinstance(found, Prediction):
        kind = type(found).__name__  # type: ignore[unreachable]
        raise InputError(f"{title} gave a {kind}; expected a volta.Prediction(probs, uncertainty)")
    n_rows = len(rows)
    for name in ("probs", "uncertainty", "ood_score", "sets"):
        values: Any = getattr(found, name)
        if name == "sets" and values is None:
            continue
        if not isinstance(values, np.ndarray):
            raise InputError(f"{title} gave {name} as a {type(values).__name__}; expected a NumPy array")
        shape = (n_rows, n_classes) if name in ("probs", "sets") else (n_rows,)
        if values.shape != shape:
            raise InputError(f"{title} gave {name} of shape {values.shape}; expected {shape}")
    return found


Names = tuple[str, ...] | None


def as_rows(value: Any, name: str) -> Array:
    """Return feature rows (n, d) as an array of floats, or say what is wrong with them."""
    refuse_mask(value, f"{name} inputs")
    rows = np.asarray(without_graph(value))
    if rows.ndim != 2 or not len(rows):
        raise InputError(
            f"{name} has inputs of shape {rows.shape}; pass rows of features (n, d), and import images with: "
            "volta data import"
        )
    if rows.dtype.kind in "biu":
        # Whole numbers beyond float32's exact range keep their digits until columns are scaled.
        rows = rows.astype(np.float64)
    check_features(rows, f"{name} inputs")
    return rows


def as_label_array(value: Any, n_rows: int, name: str) -> Array:
    """Return one label a row: numbers, or text for objects that are not whole numbers throughout."""
    refuse_mask(value, f"{name} labels")
    labels = np.asarray(without_graph(value))
    if labels.ndim != 1 or len(labels) != n_rows:
        raise InputError(f"{name} has labels of shape {labels.shape} for {n_rows} rows; pass one label a row")
    if labels.dtype != object:
        return labels
    missing = missing_values(labels)
    if missing.any():
        raise InputError(f"{name} has no label in row {int(np.argmax(missing))}; pass one label a row, or drop the row")
    if all(isinstance(label, Integral) for label in labels):
        return np.array([int(label) for label in labels])
    return np.array([str(label) for label in labels])


def missing_values(objects: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which of an array of objects stand for nothing: None, NaN, NA and NaT of any library."""
    return np.array([value is None or _unlike_itself(value) for value in objects], dtype=np.bool_)


def column_names(value: Any) -> Names:
    """Return the names of a table's columns where it has some, all of them text."""
    names = getattr(value, "column_names", None)
    names = getattr(value, "columns", None) if names is None else names
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def column_order(own: Names, columns: Names, where: str) -> list[int] | None:
    """Return the places of ``columns`` among a set's ``own``; None where they stand so, or one of the two has no names.

    Columns that only one of them has are refused, and so are two of one name, unless they stand so; ``where`` says in
    errors which set it is.
    """
    if columns is None or own is None or columns == own:
        return None
    if twice := next((name for name, n in Counter(own).items() if n > 1), None):
        raise InputError(f"{where} has two columns {twice!r}; name each otherwise, or pass arrays without names")
    place, wanted = {name: at for at, name in enumerate(own)}, set(columns)
    missing = [name for name in columns if name not in place]
    unknown = [name for name in own if name not in wanted]
    if missing or unknown:
        what = f"lacks the column {missing[0]!r}" if missing else f"has a column {unknown[0]!r}"
        which = "which the training rows have" if missing else "which the training rows lack"
        raise InputError(f"{where} {what}, {which}; give every set the same columns, in any order")
    return [place[name] for name in columns]


def _unlike_itself(value: Any) -> bool:
    """Tell missing values of every library: they alone differ from themselves or refuse to be compared."""
    try:
        return not bool(value == value)  # noqa: PLR0124
    except TypeError:
        return True


_EXACT = 2.0**53
N_FOLDS = 5
"""Rows that come undivided are dealt out in fifths: three for training, one for val and cal, one as test."""


def class_values(labels: Array, where: str) -> Array:
    """Return the distinct labels in order: numbers by value, text by spelling. Gaps in numbers are closed by position.

    Booleans and whole-valued floats count as numbers; other floats, NaN, empty text and text that differs from other
    text only in blanks around it are refused.
    """
    values = np.unique(_clean(labels, where))
    refuse_blanks(values, where)
    if len(values) < 2:
        raise InputError(f"{where} has one class ({values[0] if len(values) else 'no rows'}); a task needs two or more")
    return values


def class_numbers(labels: Array, classes: Array, where: str) -> NDArray[np.int64]:
    """Return each label's position in ``classes``, or name the first label that is none of them."""
    values = _clean(labels, where)
    if values.dtype.kind != classes.dtype.kind:
        raise InputError(f"{where} has labels like {values[0]!r}, but the training labels are like {classes[0]!r}")
    position = np.searchsorted(classes, values)
    known = classes[np.minimum(position, len(classes) - 1)] == values
    if not known.all():
        row = int(np.argmin(known))
        raise InputError(
            f"{where} row {row} has label {values[row]!s}, which no training row has; drop it or make it an OOD set"
        )
    return position.astype(np.int64)


def check_class_sizes(numbers: Mapping[str, NDArray[np.int64]], names: tuple[str, ...], needed: int) -> None:
    """Refuse classes with fewer than ``needed`` rows over the given splits."""
    if listed := _classes_below(needed, numbers.values(), names):
        raise InputError(
            f"classes with fewer than the {needed} training rows that splitting takes: {listed}; "
            "add rows, merge classes, or drop them"
        )


def small_classes(numbers: Iterable[NDArray[np.int64]], names: tuple[str, ...]) -> str | None:
    """Return a warning that names the classes with fewer rows than there are folds, or None where all have enough."""
    if not (listed := _classes_below(N_FOLDS, numbers, names)):
        return None
    return (
        f"classes with fewer rows than the {N_FOLDS} folds that rows are divided into (three train, one val and cal, "
        f"one test): {listed}; some parts lack them, so metrics say little of them: add rows or merge classes"
    )


def _classes_below(needed: int, numbers: Iterable[NDArray[np.int64]], names: tuple[str, ...]) -> str:
    """Return up to ten classes with fewer than ``needed`` rows, and how many each has."""
    counts = np.bincount(np.concatenate(list(numbers)), minlength=len(names))
    small = np.flatnonzero(counts < needed)
    listed = ", ".join(f"{names[index]} ({counts[index]})" for index in small[:10])
    return f"{listed} and {len(small) - 10} more" if len(small) > 10 else listed


def refuse_blanks(values: Array, where: str) -> None:
    """Refuse distinct labels of which two are the same text but for blanks around it."""
    if values.dtype.kind != "U":
        return
    stripped, counts = np.unique(np.char.strip(values), return_counts=True)
    if len(stripped) < len(values):
        alike = stripped[counts.argmax()]
        one, other = values[np.char.strip(values) == alike][:2].tolist()
        raise InputError(
            f"{where} has the labels {one!r} and {other!r}, which differ in blanks only; write both alike, or they "
            "would be two classes"
        )


def _clean(labels: Array, where: str) -> Array:
    if labels.dtype.kind in "SU":
        text = labels.astype(np.str_)
        if (empty := np.char.str_len(np.char.strip(text)) == 0).any():
            raise InputError(f"{where} row {int(np.argmax(empty))} has an empty label; fill it or drop the row")
        return text
    if labels.dtype.kind in "biu":
        if len(labels) and labels.max() > np.iinfo(np.int64).max:
            raise InputError(f"{where} has the label {labels.max()}, beyond 64 bits with a sign; save labels as text")
        return labels.astype(np.int64)
    if labels.dtype.kind == "f":
        # Beyond 2⁵³ neighbouring whole numbers are one float: two classes would become one in silence.
        whole = np.isfinite(labels) & (labels == np.floor(labels)) & (np.abs(labels) <= _EXACT)
        if not whole.all():
            row = int(np.argmin(whole))
            raise InputError(
                f"{where} row {row} has label {labels[row]}; labels must be whole numbers up to 2^53 or text"
            )
        return labels.astype(np.int64)
    raise InputError(f"{where} has labels of type {labels.dtype}; save them as numbers or fixed-width text")
