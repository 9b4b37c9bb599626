"""All sets of a task as its files give them, before val and cal are split off; sets are read when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias, TypeVar

from volta.core.types import Array, OodSet, Split, SplitDraw

T = TypeVar("T")
CorruptionOrigin: TypeAlias = Literal["none", "official", "generated"]


class LazyMapping(Mapping[str, T]):
    """Named values that are made when first asked for, then kept; names and length cost nothing."""

    def __init__(self, makers: Mapping[str, Callable[[], T]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True, eq=False)
class RawSets:
    """All sets of a task as its files give them.

    ``parts`` is ``train`` and ``test``, from which :func:`volta.data.prepare.make_task` splits ``val`` and ``cal``,
    or all four. ``source`` says in words where the data came from; ``corruptions`` whether the shifts include those of
    CIFAR-10-C, and whose they are; ``split`` which draw of the rows this is, where the source makes more than one.
    """

    parts: Mapping[str, Split]
    ood: Mapping[str, OodSet] = field(default_factory=dict)
    shifts: Mapping[str, Split] = field(default_factory=dict)
    class_names: tuple[str, ...] = ()
    source: str = ""
    corruptions: CorruptionOrigin = "none"
    split: SplitDraw = field(default_factory=SplitDraw)

    def inputs(self) -> LazyMapping[Array]:
        """Return the inputs of every set in a stable order: parts, then ``ood:NAME``, then ``shift:NAME-SEVERITY``.

        A set is read or made only when it is asked for.
        """
        makers = {name: partial(_part_inputs, self.parts, name) for name in self.parts}
        makers |= {f"ood:{name}": partial(_part_inputs, self.ood, name) for name in self.ood}
        makers |= {f"shift:{name}": partial(_part_inputs, self.shifts, name) for name in self.shifts}
        return LazyMapping(makers)


def _part_inputs(sets: Mapping[str, Split] | Mapping[str, OodSet], name: str) -> Array:
    return sets[name].inputs
