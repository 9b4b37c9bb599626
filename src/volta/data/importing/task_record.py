"""``task.json``: what an imported task holds, as one value with types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NoReturn, get_args

from volta.core.errors import InputError, StoreError
from volta.core.json_fields import JsonFields, JsonObject
from volta.core.sealed import FileKind
from volta.core.set_names import check_ood_names, with_severities
from volta.core.types import EncoderKind, InputKind
from volta.data.formats.feature_files import PARTS

TASK_KIND = FileKind("description of a task", 2, "import the task again with --force")
_ARRAY_NAME = re.compile(r"[0-9a-f]{32}\.npy")


@dataclass(frozen=True)
class ArrayReference:
    """A stored array: its file, SHA-256 and seal, and what its header has to say."""

    file: str
    sha256: str
    seal: str
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def from_json(cls, stored: JsonFields) -> ArrayReference:
        """Return the reference that was stored; one to a file elsewhere is refused."""
        found = cls(
            stored.text("file"),
            stored.text("sha256"),
            stored.text("seal"),
            stored.integers("shape"),
            stored.text("dtype"),
        )
        if not _ARRAY_NAME.fullmatch(found.file):
            _refuse(stored, f"names the file {found.file!r}")
        if any(side < 0 for side in found.shape):
            _refuse(stored, f"gives an array the shape {found.shape}")
        return found


@dataclass(frozen=True)
class StoredSplit:
    """Inputs and class numbers of a split or shift."""

    inputs: ArrayReference
    labels: ArrayReference

    @classmethod
    def from_json(cls, stored: JsonFields) -> StoredSplit:
        """Return the split that was stored."""
        inputs, labels = (ArrayReference.from_json(stored.fields(name)) for name in ("inputs", "labels"))
        if inputs.shape[:1] != labels.shape or not inputs.shape:
            _refuse(stored, f"has inputs of shape {inputs.shape} and labels of shape {labels.shape}")
        return cls(inputs, labels)


@dataclass(frozen=True)
class StoredOod:
    """Inputs of an OOD set, and whether it is near."""

    inputs: ArrayReference
    near: bool

    @classmethod
    def from_json(cls, stored: JsonFields) -> StoredOod:
        """Return the set that was stored."""
        near = stored.optional_flag("near")
        if near is None:
            _refuse(stored, "does not say whether it is near")
        return cls(ArrayReference.from_json(stored.fields("inputs")), near)


@dataclass(frozen=True)
class TaskRecord:
    """What an imported task is and which files hold it."""

    name: str
    title: str
    source: str
    kind: InputKind
    encoder: EncoderKind
    class_names: tuple[str, ...]
    parts: Mapping[str, StoredSplit]
    ood: Mapping[str, StoredOod] = field(default_factory=dict)
    shifts: Mapping[str, StoredSplit] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def arrays(self) -> list[ArrayReference]:
        """Every file of the task, each once."""
        splits = [*self.parts.values(), *self.shifts.values()]
        found = [*(split.inputs for split in splits), *(split.labels for split in splits)]
        found += [one.inputs for one in self.ood.values()]
        return list({reference.file: reference for reference in found}.values())

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: JsonFields) -> TaskRecord:
        """Return the record that :meth:`to_json` wrote; names in it pass the checks of names from users."""
        kind = next((one for one in get_args(InputKind) if one == stored.get("kind")), None)
        encoder = next((one for one in get_args(EncoderKind) if one == stored.get("encoder")), None)
        if kind is None or encoder is None:
            _refuse(stored, f"has the kind {stored.get('kind')!r} and the encoder {stored.get('encoder')!r}")
        parts, ood, shifts = (stored.fields(name) for name in ("parts", "ood", "shifts"))
        try:
            check_ood_names(ood.values, ())
            with_severities(shifts.values)
        except InputError as error:
            raise StoreError(f"{stored.where}: {error}; {stored.remedy}") from error
        return cls(
            name=stored.text("name"),
            title=stored.text("title"),
            source=stored.text("source"),
            kind=kind,
            encoder=encoder,
            class_names=stored.texts("class_names"),
            parts={part: StoredSplit.from_json(parts.fields(part)) for part in PARTS},
            ood={name: StoredOod.from_json(ood.fields(name)) for name in ood.values},
            shifts={name: StoredSplit.from_json(shifts.fields(name)) for name in shifts.values},
            notes=stored.texts("notes"),
        )


def _refuse(stored: JsonFields, why: str) -> NoReturn:
    raise StoreError(f"{stored.where} {why}; {stored.remedy}")
