"""Checks of arguments: each returns the array to use or raises ``InputError`` naming the first bad row."""

import math
from collections.abc import Iterator, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.errors import InputError
from volta.core.mapped import row_chunks

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
            f"{name} row {int(np.argmax(missing))} is NaN; a score must order (use inf for «most uncertain»)"
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
