"""Frozen features on disk: ``features/NAME.npz`` for the splits, ``NAME-ood.npz`` and ``NAME-shifts.npz`` beside it.

``NAME.npz`` holds ``train_x``, ``train_y``, ``test_x``, ``test_y``, and ``val_*`` and ``cal_*`` where the splits are
fixed; the other two hold ``SET_x``, and a shift ``SET_y`` where its labels are not the test labels and ``SET_o`` where
it is one of CIFAR-10-C's corruptions: ``official`` or ``generated``, as its images were. Shifted sets of a part of the
test rows alone lie in ``NAME-shifts-N.npz``, N rows each, and serve loads with ``limit_test`` N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_features
from volta.core.errors import InputError
from volta.core.files import write_atomic
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.sealed import lock_file
from volta.core.types import Array, OodSet, Split
from volta.data.corruptions.families import CORRUPTION_NAMES
from volta.data.formats.array_files import read_npz
from volta.data.options import LoadOptions, ShiftOrigin
from volta.data.raw_sets import CorruptionOrigin, RawSets

PARTS = ("train", "val", "cal", "test")


def features_path(root: Path, name: str, what: str = "") -> Path:
    """Return the path of a task's feature file; ``what`` is empty, ``ood``, ``shifts`` or ``shifts-N``."""
    return root / "features" / (f"{name}-{what}.npz" if what else f"{name}.npz")


def stored_features(root: Path, name: str) -> list[Path]:
    """Return where a task's feature files may lie: those of fixed names, and what there is of parts of the rows."""
    parts = [path for path in root.glob(f"features/{name}-shifts-*.npz") if path.stem.rpartition("-")[2].isdigit()]
    return [*(features_path(root, name, what) for what in ("", "ood", "shifts")), *parts]


@dataclass(frozen=True, eq=False)
class FeatureFiles:
    """The feature files of the task ``name``.

    ``ood_rows`` says how many rows each OOD set has when whole, which the source note compares with what was found.
    ``class_names`` are used where they fit the labels. ``every_shift`` takes the shifts of all severities, not only
    those asked for.
    """

    name: str
    class_names: tuple[str, ...] = ()
    ood_rows: Mapping[str, int] = field(default_factory=dict)
    every_shift: bool = False
    limits: Limits = DEFAULT_LIMITS

    def is_there(self, root: Path) -> bool:
        """Whether the task's features are there."""
        return features_path(root, self.name).is_file()

    def read(self, options: LoadOptions) -> RawSets:
        """Return the task's features as float32."""
        root = options.folder
        path = features_path(root, self.name)
        arrays = read_npz(path, self.limits)
        parts = {part: labelled_part(arrays, part, path, self.limits) for part in PARTS if f"{part}_x" in arrays}
        for part in ("train", "test"):
            if part not in parts:
                raise InputError(f"{path} has no {part}_x and {part}_y; it holds: {', '.join(arrays) or 'nothing'}")
        ood, _ = _extra_sets(features_path(root, self.name, "ood"), self.limits)
        shifts, shift_labels = self._shifts(options)
        _check_widths(path, parts["train"].inputs.shape[1], {**ood, **shifts})
        n_classes = int(max(split.labels.max() for split in parts.values())) + 1
        names = self.class_names if len(self.class_names) == n_classes else map(str, range(n_classes))
        return RawSets(
            parts=parts,
            ood={key: OodSet(rows) for key, rows in ood.items()},
            shifts={key: Split(rows, shift_labels.get(key, parts["test"].labels)) for key, rows in shifts.items()},
            class_names=tuple(names),
            source=_describe(path, ood, self.ood_rows),
        )

    def _shifts(self, options: LoadOptions) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the shifts asked for, whole ones before those of a part of the test rows."""
        if options.shifts == "none":
            return {}, {}

        def is_asked(shift: str) -> bool:
            return self.every_shift or _severity(shift) in options.severities

        def read(what: str, is_read: Callable[[str], bool]) -> tuple[dict[str, Array], dict[str, Array]]:
            path = features_path(options.folder, self.name, what)
            others = _made_otherwise(path, self.limits, options.shifts)
            return _extra_sets(path, self.limits, lambda shift: is_read(shift) and shift not in others)

        whole, labels = read("shifts", is_asked)
        if options.limit_test is None:
            return whole, labels
        more, more_labels = read(f"shifts-{options.limit_test}", lambda shift: is_asked(shift) and shift not in whole)
        return whole | more, labels | more_labels


def write_feature_sets(root: Path, name: str, features: Mapping[str, Array], pixels: RawSets) -> list[Path]:
    """Store features extracted from the sets of ``pixels``, keyed as :meth:`RawSets.inputs` is; return the files.

    Half-precision features stay half-precision on disk. Sets stored before that are not written now stay if the test
    rows stay as they were; beside those of another backbone they would be no shifted or OOD sets of this one.
    """
    whole = {}
    for part, split in pixels.parts.items():
        whole[f"{part}_x"], whole[f"{part}_y"] = features[part], split.labels
    files = {"": whole}
    for what, key in (("ood", "ood:"), ("shifts", "shift:")):
        sets = {f"{set_name[len(key) :]}_x": rows for set_name, rows in features.items() if set_name.startswith(key)}
        if sets:
            files[what] = sets
    for shift, split in pixels.shifts.items():
        if f"shift:{shift}" in features and split.labels is not pixels.parts["test"].labels:
            files["shifts"][f"{shift}_y"] = split.labels
    if "shifts" in files:
        files["shifts"] |= _origins(files["shifts"], pixels.corruptions)
    written = {features_path(root, name, what): arrays for what, arrays in files.items()}
    main = features_path(root, name)
    if not _same_rows(main, features["test"]):
        # Those that are written anew too: whoever is stopped in between must not leave sets of two backbones.
        for path in stored_features(root, name):
            if path != main:
                path.unlink(missing_ok=True)
    for path, arrays in written.items():
        _write(path, arrays)
    return list(written)


def _same_rows(path: Path, test: Array) -> bool:
    """Whether the test rows stored in ``path`` are these, up to the precision of a file."""
    if not path.is_file():
        return False
    stored = read_npz(path, wanted=lambda key: key == "test_x").get("test_x")
    return stored is not None and stored.shape == test.shape and np.allclose(stored, test, rtol=1e-2, atol=1e-3)


def add_shifts(
    root: Path, name: str, shifts: Mapping[str, Split], n_rows: int | None, origin: CorruptionOrigin = "none"
) -> Path:
    """Store shifted sets beside those that are there already; ``n_rows`` names sets of a part of the test rows.

    ``origin`` says whose images of CIFAR-10-C's corruptions they were made of.
    """
    path = features_path(root, name, "shifts" if n_rows is None else f"shifts-{n_rows}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_file(path.parent, f"{path.name}.lock"):
        arrays = read_npz(path) if path.is_file() else {}
        for key, split in shifts.items():
            arrays[f"{key}_x"], arrays[f"{key}_y"] = split.inputs, split.labels
            arrays.pop(f"{key}_o", None)
        arrays |= _origins({f"{key}_x": split.inputs for key, split in shifts.items()}, origin)
        _write(path, arrays)
    return path


def _origins(sets: Iterable[str], origin: CorruptionOrigin) -> dict[str, Array]:
    """Return the marks of those sets that are corruptions; two ways to make one give different images of one name."""
    names = [] if origin == "none" else [key[:-2] for key in sets if key.endswith("_x")]
    return {f"{name}_o": np.array(origin) for name in names if name.rpartition("-")[0] in CORRUPTION_NAMES}


def _made_otherwise(path: Path, limits: Limits, asked: ShiftOrigin) -> set[str]:
    """Return the stored sets that are known to be made in another way than was asked for."""
    if asked not in ("official", "generated") or not path.is_file():
        return set()
    marks = read_npz(path, limits, lambda key: key.endswith("_o"))
    return {key[:-2] for key, mark in marks.items() if mark.size != 1 or str(mark.reshape(())) != asked}


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    content = {key: np.asarray(array) for key, array in arrays.items()}
    write_atomic(path, lambda file: np.savez(file, **content))  # type: ignore[arg-type]


def labelled_part(arrays: Mapping[str, Array], part: str, path: Path, limits: Limits = DEFAULT_LIMITS) -> Split:
    """Return the rows ``PART_x`` with the class numbers ``PART_y``, both checked."""
    if f"{part}_y" not in arrays:
        raise InputError(f"{path} has {part}_x but no {part}_y; features need labels")
    labels = _class_numbers(arrays[f"{part}_y"], f"{path} {part}_y", limits)
    return Split(_features(arrays[f"{part}_x"], f"{path} {part}_x"), labels)


def _class_numbers(labels: Array, where: str, limits: Limits) -> NDArray[np.int64]:
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.min(initial=0) < 0:
        raise InputError(f"{where} has shape {labels.shape} and {labels.dtype}; expected class numbers from 0")
    if len(labels) and labels.max() >= limits.n_classes:
        raise InputError(
            f"{where} has the class number {labels.max()}; they run from 0 without gaps, and a task has "
            f"{limits.n_classes:,} classes at most; number them anew, or import the file, which does so"
        )
    return labels.astype(np.int64)


def _extra_sets(
    path: Path, limits: Limits, is_asked: Callable[[str], bool] = lambda name: True
) -> tuple[dict[str, Array], dict[str, Array]]:
    if not path.is_file():
        return {}, {}
    arrays = read_npz(path, limits, lambda key: is_asked(key[:-2]))
    rows = {key[:-2]: _features(array, f"{path} {key}") for key, array in arrays.items() if key.endswith("_x")}
    labels = {
        key[:-2]: _class_numbers(array, f"{path} {key}", limits) for key, array in arrays.items() if key.endswith("_y")
    }
    return rows, labels


def _features(rows: Array, where: str) -> Array:
    if rows.ndim != 2:
        raise InputError(f"{where} has shape {rows.shape}; expected (n_samples, n_features)")
    return np.asarray(check_features(rows, where), dtype=np.float32)


def _check_widths(path: Path, width: int, sets: Mapping[str, Array]) -> None:
    for name, rows in sets.items():
        if rows.shape[1] != width:
            raise InputError(
                f"{path}: {name} has {rows.shape[1]} features but train has {width}; extract them with one backbone"
            )


def _severity(shift: str) -> int | None:
    tail = shift.rpartition("-")[2]
    return int(tail) if tail.isdigit() else None


def _describe(path: Path, ood: Mapping[str, Array], ood_rows: Mapping[str, int]) -> str:
    text = f"features from {path.name}"
    fewer = [
        f"{name} {len(rows):,} of {ood_rows[name]:,} rows"
        for name, rows in ood.items()
        if len(rows) < ood_rows.get(name, 0)
    ]
    return f"{text}; not whole: {', '.join(fewer)}" if fewer else text
