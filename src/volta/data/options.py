"""Where data lies and how much of it a load should bring."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from volta.core.errors import InputError
from volta.core.scaling import SCALES, ScaleName

ROOT_VARIABLE = "VOLTA_DATA"
CACHE_VARIABLE = "VOLTA_CACHE"
SEVERITIES = (1, 2, 3, 4, 5)
ShiftOrigin: TypeAlias = Literal["auto", "official", "generated", "none"]
Part = TypeVar("Part")


@dataclass(frozen=True)
class LoadOptions:
    """What a task is loaded from and which of its extra sets come with it.

    ``root`` is the data folder, see :func:`data_root`. ``severities`` names the corruption severities of ``cifar10``.
    ``shifts`` says where they come from: ``official`` is the CIFAR-10-C archive, ``generated`` makes them here,
    ``auto`` takes the archive where it is there and generates otherwise, ``none`` leaves them out. ``ood`` names the
    OOD sets to load; None is all. ``seed`` is the run's seed, by which a task whose test rows rotate (``digits``) draws
    all its rows; None is the fixed split. ``scale`` says how a benchmark scales columns: ``auto`` scales own data as
    the classifier does and leaves the package's tasks alone, ``standard`` and ``none`` hold for every task.
    ``limit_test`` keeps at most that many rows of test and of each OOD and shifted set, so that no more are extracted.
    """

    root: Path | None = None
    severities: tuple[int, ...] = (1,)
    shifts: ShiftOrigin = "auto"
    ood: tuple[str, ...] | None = None
    seed: int | None = None
    scale: ScaleName = "auto"
    limit_test: int | None = None

    def __post_init__(self) -> None:
        if not set(self.severities) <= set(SEVERITIES):
            raise InputError(f"severities is {self.severities}; pass numbers from 1 to 5, each a CIFAR-10-C severity")
        if self.shifts not in ("auto", "official", "generated", "none"):
            raise InputError(f"shifts is {self.shifts!r}; pass auto, official, generated or none")
        if self.scale not in SCALES:
            raise InputError(f"scale is {self.scale!r}; pass one of {', '.join(SCALES)}")
        if self.limit_test is not None and self.limit_test < 1:
            raise InputError(f"limit_test is {self.limit_test}; pass a whole number of at least 1")

    @property
    def folder(self) -> Path:
        """The data folder this load reads."""
        return data_root(self.root)

    def wants_ood(self, name: str) -> bool:
        """Whether the OOD set ``name`` is asked for."""
        return self.ood is None or name in self.ood

    def pick_ood(self, sets: Mapping[str, Part]) -> dict[str, Part]:
        """Return the OOD sets asked for, or say which one does not exist."""
        for name in self.ood or ():
            if name not in sets:
                raise InputError(
                    f"ood names {name!r}, which this task does not have; it has: {', '.join(sets) or 'none'}"
                )
        return {name: part for name, part in sets.items() if self.wants_ood(name)}


def data_root(root: Path | str | None = None) -> Path:
    """Return the data folder: ``root`` if given, else ``$VOLTA_DATA``, else the platform's cache folder."""
    if root is not None:
        return Path(root).expanduser()
    if named := os.environ.get(ROOT_VARIABLE):
        return Path(named).expanduser()
    return _platform_cache()


def cache_folder() -> Path:
    """Return where derived arrays are kept: ``$VOLTA_CACHE``, else in the platform's cache folder.

    Never in the data folder, which may be shared or meant to stay as it is; permissions do not tell, since an
    administrator may write anywhere.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named).expanduser()
    return _platform_cache() / "cache"


def _platform_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("volta", appauthor=False)
