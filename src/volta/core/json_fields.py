"""Values taken out of a stored JSON object with their types checked, so that nothing behind it has to ask again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias, TypeGuard

from volta.core.errors import StoreError

JsonObject: TypeAlias = dict[str, object]
"""A JSON object about to be written, or just read."""
_LARGEST = (1 << 64) - 1
"""Beyond this a whole number fits no array and no float."""


@dataclass(frozen=True)
class JsonFields:
    """One JSON object of a file.

    ``where`` names the file and, inside it, the object; ``remedy`` is what a reader is told to do about a bad value.
    """

    values: Mapping[str, object]
    where: str
    remedy: str

    @classmethod
    def of(cls, value: object, where: str, remedy: str) -> JsonFields:
        """Return the fields of a JSON object; refuse anything else."""
        if not isinstance(value, dict):
            raise StoreError(f"{where} is {_shown(value)}, expected an object; {remedy}")
        return cls(value, where, remedy)

    def get(self, name: str) -> object:
        """Return a value of any type; one that is absent is None."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.optional_text(name)
        return self._refuse(name, "a text") if value is None else value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None where it is null or absent."""
        value = self.get(name)
        return value if value is None or isinstance(value, str) else self._refuse(name, "a text")

    def integer(self, name: str) -> int:
        """Return a whole number."""
        value = self.optional_integer(name)
        return self._refuse(name, "a whole number") if value is None else value

    def optional_integer(self, name: str) -> int | None:
        """Return a whole number, or None where it is null or absent."""
        value = self.get(name)
        if value is None or _is_integer(value):
            return value
        return self._refuse(name, "a whole number")

    def number(self, name: str) -> float:
        """Return a finite number."""
        value = self.optional_number(name)
        return self._refuse(name, "a finite number") if value is None else value

    def optional_number(self, name: str) -> float | None:
        """Return a finite number, or None where it is null or absent."""
        value = self.get(name)
        if value is None:
            return None
        return float(value) if _is_number(value) else self._refuse(name, "a finite number")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        values = self._list(name)
        return tuple(value if isinstance(value, str) else self._refuse(name, "a list of texts") for value in values)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        values = self._list(name)
        whole = tuple(value for value in values if _is_integer(value))
        return whole if len(whole) == len(values) else self._refuse(name, "a list of whole numbers")

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of finite numbers."""
        wanted = "a list of finite numbers"
        values = self._list(name)
        return tuple(float(value) if _is_number(value) else self._refuse(name, wanted) for value in values)

    def optional_flag(self, name: str) -> bool | None:
        """Return true or false, or None where it is null or absent."""
        value = self.get(name)
        return value if value is None or isinstance(value, bool) else self._refuse(name, "true or false")

    def fields(self, name: str) -> JsonFields:
        """Return an object inside this one."""
        return JsonFields.of(self.get(name), f"{self.where}: {name}", self.remedy)

    def list_of_fields(self, name: str) -> list[JsonFields]:
        """Return a list of objects inside this one."""
        values = self._list(name)
        return [JsonFields.of(value, f"{self.where}: {name}[{i}]", self.remedy) for i, value in enumerate(values)]

    def refuse_unknown(self, known: set[str]) -> None:
        """Refuse names other than ``known``: what they mean would be lost in silence."""
        for name in self.values:
            if name not in known:
                raise StoreError(f"{self.where} has {name!r}, which this volta does not know; {self.remedy}")

    def _list(self, name: str) -> list[object]:
        value = self.get(name)
        return value if isinstance(value, list) else self._refuse(name, "a list")

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        came = _shown(self.values[name]) if name in self.values else "missing"
        raise StoreError(f"{self.where}: {name} is {came}, expected {wanted}; {self.remedy}")


def _is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and -_LARGEST <= value <= _LARGEST


def _is_number(value: object) -> TypeGuard[int | float]:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
