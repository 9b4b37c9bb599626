"""The rows a metric is taken on, and the one place where the stored names of such sets are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from volta.core.errors import InputError

Kind: TypeAlias = Literal["test", "ood", "shift"]


@dataclass(frozen=True)
class EvalSet:
    """The test rows, an OOD set, or the test rows under a shift.

    Stored as ``test``, ``ood:NAME``, and ``shift:NAME-SEVERITY`` or ``shift:NAME`` for a shift without a severity.
    """

    kind: Kind
    name: str = ""
    severity: int | None = None

    @classmethod
    def parse(cls, stored: str) -> EvalSet:
        """Return the set with a stored name.

        >>> EvalSet.parse("shift:blur-3")
        EvalSet(kind='shift', name='blur', severity=3)
        """
        kind, _, name = stored.partition(":")
        if stored == "test":
            return TEST
        if kind == "ood" and name:
            return cls("ood", name)
        if kind == "shift" and name:
            stem, _, tail = name.rpartition("-")
            # Only a severity as it would be written back: "fog-03" is a name, so that no two names are one set.
            if stem and tail.isdecimal() and str(int(tail)) == tail:
                return cls("shift", stem, int(tail))
            return cls("shift", name)
        raise InputError(f"{stored!r} names no set; expected test, ood:NAME, shift:NAME-SEVERITY or shift:NAME")

    def __str__(self) -> str:
        if self.kind == "test":
            return "test"
        return f"{self.kind}:{self.name}" + ("" if self.severity is None else f"-{self.severity}")


TEST = EvalSet("test")
