"""The images of a task that is made of published sets: train and test, OOD sets, and corruptions of the test images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from volta.core.errors import MissingDataError
from volta.core.types import OodSet, Split
from volta.data.corruptions.shifts import generated_shifts, official_shifts
from volta.data.download.archive import Archive
from volta.data.options import LoadOptions, cache_folder
from volta.data.published.image_set import ImageSet, PublishedSet
from volta.data.raw_sets import CorruptionOrigin, LazyMapping, RawSets
from volta.data.row_limits import limited_rows


@dataclass(frozen=True, eq=False)
class PublishedImages:
    """Which published sets make up the task ``name``.

    ``corrupted`` is the archive of the test images under the nineteen corruptions; where a task has none, they are
    generated only when asked for.
    """

    name: str
    train: ImageSet
    test: ImageSet
    ood: Mapping[str, PublishedSet] = field(default_factory=dict)
    corrupted: Archive | None = None

    def missing(self, options: LoadOptions) -> list[str]:
        """Return the files that a read would lack; nothing is read."""
        absent = [part for part in self._asked(options).values() if not part.is_there(options.folder)]
        return list(dict.fromkeys(part.described for part in absent))

    def read(self, options: LoadOptions) -> RawSets:
        """Return the pixels with the OOD sets and corruptions asked for."""
        found = {name: part.find(options.folder) for name, part in self._asked(options).items()}
        train, test = found.pop("train"), found.pop("test")
        shifts, origin, note = self._shifts(options, test.split)
        sources = [train.source, test.source, *(part.source for part in found.values()), note]
        return RawSets(
            parts={"train": train.split, "test": test.split},
            ood={name.removeprefix("ood:"): OodSet(part.split.inputs) for name, part in found.items()},
            shifts=shifts,
            class_names=train.class_names,
            source="; ".join(source for source in sources if source),
            corruptions=origin,
        )

    def _asked(self, options: LoadOptions) -> dict[str, PublishedSet]:
        asked: dict[str, PublishedSet] = {"train": self.train, "test": self.test}
        return asked | {f"ood:{name}": part for name, part in self.ood.items() if options.wants_ood(name)}

    def _shifts(self, options: LoadOptions, test: Split) -> tuple[LazyMapping[Split], CorruptionOrigin, str]:
        unasked = self.corrupted is None and options.shifts != "generated"
        if unasked or options.shifts == "none" or not options.severities:
            return LazyMapping({}), "none", ""
        if self.corrupted is not None and self._takes_archive(self.corrupted, options):
            shifts = official_shifts(self.corrupted.place(options.folder), options.severities, test)
            return shifts, "official", f"shifts: official archive ({self.corrupted.file})"
        note = "shifts: CIFAR-10-C's corruptions, generated here from the test images"
        rows = limited_rows(test.labels, options.limit_test, self.name)
        return generated_shifts(test, options.severities, cache_folder(), rows), "generated", note

    def _takes_archive(self, archive: Archive, options: LoadOptions) -> bool:
        """Whether the archive's corruptions are to be read: as asked, or where it lies with the images it is of."""
        is_there = archive.place(options.folder).is_dir()
        if options.shifts == "official" and not is_there:
            raise MissingDataError(
                f"{archive.folder} is not under {options.folder}: missing {archive.folder} (from {archive.file})\n"
                f"get it with: volta data get {archive.name} --data {options.folder}   "
                "or generate it: shifts='generated'"
            )
        with_images = is_there and self.test.archive.place(options.folder).exists()
        return options.shifts == "official" or (options.shifts == "auto" and with_images)
