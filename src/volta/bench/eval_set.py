"""The rows a metric is taken on, and the one place where the stored names of such sets are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from volta.core.errors import InputError

Kind: TypeAlias = Literal["test", "ood", "shift", "near", "far"]
Variant: TypeAlias = Literal["", "T", "msp"]


@dataclass(frozen=True)
class EvalSet:
    """The test rows, an OOD set, the test rows under a shift, or the mean over all near or all far OOD sets.

    Stored as ``test``, ``ood:NAME``, ``shift:NAME-SEVERITY`` (``shift:NAME`` for a shift without a severity), ``near:``
    and ``far:``. The test rows have two variants: ``test+T``, after one temperature fitted to the method's own
    validation predictions, and ``test+msp``, with 1 − max p in place of the method's own uncertainty.
    """

    kind: Kind
    name: str = ""
    severity: int | None = None
    variant: Variant = ""

    @classmethod
    def parse(cls, stored: str) -> EvalSet:
        """Return the set with a stored name.

        >>> EvalSet.parse("shift:blur-3")
        EvalSet(kind='shift', name='blur', severity=3, variant='')
        """
        kind, _, name = stored.partition(":")
        if stored in _WITHOUT_NAME:
            return _WITHOUT_NAME[stored]
        if kind == "ood" and name:
            return cls("ood", name)
        if kind == "shift" and name:
            stem, _, tail = name.rpartition("-")
            # Only a severity as it would be written back: "fog-03" is a name, so that no two names are one set.
            if stem and tail.isdecimal() and str(int(tail)) == tail:
                return cls("shift", stem, int(tail))
            return cls("shift", name)
        known = ", ".join(_WITHOUT_NAME)
        raise InputError(f"{stored!r} names no set; expected {known}, ood:NAME, shift:NAME-SEVERITY or shift:NAME")

    def __str__(self) -> str:
        if self.kind == "test":
            return f"test+{self.variant}" if self.variant else "test"
        return f"{self.kind}:{self.name}" + ("" if self.severity is None else f"-{self.severity}")


VAL = "val"
"""The stored name of the validation rows; predictions on them are kept, but no metric is taken on them."""

TEST = EvalSet("test")
TEST_AFTER_TEMPERATURE = EvalSet("test", variant="T")
TEST_BY_MSP = EvalSet("test", variant="msp")
NEAR, FAR = EvalSet("near"), EvalSet("far")
_WITHOUT_NAME = {str(one): one for one in (TEST, TEST_AFTER_TEMPERATURE, TEST_BY_MSP, NEAR, FAR)}
