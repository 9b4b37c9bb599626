"""The encoding of a table with a schema as ONNX operators, one input for each column, in front of a graph of numbers.

Numbers, Booleans (0 and 1) and dates (days since 1970-01-01) are float64 tensors (n, 1), in which NaN is a missing
cell; categories are string tensors (n, 1), in which an empty text is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from volta.core.types import Array
from volta.data.column_encoding import ColumnSchema, TableSchema
from volta.data.frames import FIRST_DAY, LAST_DAY, MISSING_TEXTS, Cells, RawTable

UNKNOWN, MISSING = -2, -1


@dataclass(frozen=True)
class EncodingGraph:
    """Operators that encode a table: ``inputs``, one value a column, ``nodes`` and ``initializers`` for a graph.

    ``output`` is the name of the encoded rows (n, d) in float64; ``input_names``: the input of each column. Domain
    ``ai.onnx.ml`` has to be imported in version 2 or later, the default domain in version 13 or later.
    """

    inputs: tuple[Any, ...]
    nodes: tuple[Any, ...]
    initializers: tuple[Any, ...]
    input_names: tuple[str, ...]
    output: str


def encoding_graph(
    schema: TableSchema, output: str, taken: Sequence[str] = (), *, encoded: bool = True
) -> EncodingGraph:
    """Return the operators of ``schema.encode``; a column whose name is ``taken`` has an input "NAME (column)".

    Without ``encoded`` the columns, which are numbers, are put side by side as they are.
    """
    from onnx import TensorProto, helper

    made = _Encoding()
    names = tuple(f"{name} (column)" if name in taken else name for name in schema.names)
    inputs, blocks = [], []
    for name, column in zip(names, schema.columns, strict=True):
        text = column.kind == "category"
        inputs.append(helper.make_tensor_value_info(name, TensorProto.STRING if text else TensorProto.DOUBLE, ["n", 1]))
        if encoded:
            blocks += made.category(name, column) if text else made.numbers(name, column)
        else:
            blocks.append(name)
    made.nodes.append(helper.make_node("Concat", blocks, [output], axis=1))
    return EncodingGraph(tuple(inputs), tuple(made.nodes), tuple(made.initializers), names, output)


class Operators:
    """Nodes and constants, made one after another; each method returns the name of what it makes."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def make(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one output."""
        from onnx import helper

        name = f"encoding/{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, [*inputs], [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Add a constant."""
        from onnx import numpy_helper

        name = f"encoding/constant/{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def double(self, name: str) -> str:
        """Add a conversion to float64."""
        from onnx import TensorProto

        return self.make("Cast", name, to=TensorProto.DOUBLE)


class _Encoding(Operators):
    """The operators of a table's columns."""

    def numbers(self, name: str, column: ColumnSchema) -> list[str]:
        """Return the columns of a number, a Boolean or a date."""
        missing, bad = self.make("IsNaN", name), self.make("IsInf", name)
        if column.kind == "boolean":
            known = [self.make("Equal", name, self.constant(value)) for value in (0.0, 1.0)]
            bad = self.make("Not", self.make("Or", missing, self.make("Or", *known)))
        fill = self.constant(column.fill)
        filled = self.make("Where", self.make("Or", missing, bad), fill, name)
        found = [filled, *(self.calendar(filled, column) if column.kind == "date" else [])]
        return found + self.flags(column, missing, bad)

    def flags(self, column: ColumnSchema, missing: str, bad: str) -> list[str]:
        """Return the indicator of missing cells, where there is one, and that of cells which no training row has."""
        if column.missing:
            return [self.double(missing), self.double(bad)]
        return [self.double(self.make("Or", missing, bad))]

    def category(self, name: str, column: ColumnSchema) -> list[str]:
        """Return the columns of a category."""
        known = dict(zip(column.levels, column.slots.tolist(), strict=True)) | dict.fromkeys(MISSING_TEXTS, MISSING)
        place = self.make(
            "LabelEncoder",
            name,
            domain="ai.onnx.ml",
            keys_strings=list(known),
            values_int64s=list(known.values()),
            default_int64=UNKNOWN,
        )
        missing, bad = (self.make("Equal", place, self.constant(np.int64(code))) for code in (MISSING, UNKNOWN))
        found = []
        if column.width:
            found = [self.double(self.make("Equal", place, self.constant(np.arange(column.width)[None])))]
        return found + self.flags(column, missing, bad)

    def calendar(self, days: str, column: ColumnSchema) -> list[str]:
        """Return month, day, weekday and hour, as `calendar_parts`, by the proleptic Gregorian calendar."""
        low, high = self.constant(FIRST_DAY), self.constant(LAST_DAY)
        bounded = self.make("Min", self.make("Max", days, low), high)
        whole = self.make("Floor", bounded)
        # Years that begin in March: the leap day is then the last of a year, and months follow one formula.
        shifted = self.plus(whole, 719_468.0)
        of_era = self.minus(shifted, self.times(self.floored(shifted, 146_097.0), 146_097.0))
        year = self.minus(of_era, self.floored(of_era, 1_460.0))
        year = self.make("Add", year, self.floored(of_era, 36_524.0))
        year = self.floored(self.minus(year, self.floored(of_era, 146_096.0)), 365.0)
        began = self.make("Add", self.times(year, 365.0), self.floored(year, 4.0))
        of_year = self.minus(of_era, self.minus(began, self.floored(year, 100.0)))
        month = self.floored(self.plus(self.times(of_year, 5.0), 2.0), 153.0)
        day = self.minus(of_year, self.floored(self.plus(self.times(month, 153.0), 2.0), 5.0))
        early = self.make("Less", month, self.constant(10.0))
        since = self.plus(whole, 3.0)
        parts = [
            self.make("Where", early, self.plus(month, 3.0), self.plus(month, -9.0)),
            self.plus(day, 1.0),
            self.minus(since, self.times(self.floored(since, 7.0), 7.0)),
        ]
        return [*parts, *([self.times(self.minus(bounded, whole), 24.0)] if column.timed else [])]

    def plus(self, name: str, value: float) -> str:
        return self.make("Add", name, self.constant(value))

    def minus(self, first: str, second: str) -> str:
        return self.make("Sub", first, second)

    def times(self, name: str, value: float) -> str:
        return self.make("Mul", name, self.constant(value))

    def floored(self, name: str, divisor: float) -> str:
        return self.make("Floor", self.make("Div", name, self.constant(divisor)))


def with_encoding(model: Any, schema: TableSchema, *, encoded: bool = True) -> Any:
    """Return an ONNX model of encoded rows as one of the schema's table; its only input is replaced.

    ``encoded``: see :func:`encoding_graph`.
    """
    from onnx import helper

    graph = model.graph
    (rows,) = graph.input
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    taken |= {each.name for each in graph.initializer}
    encoding = encoding_graph(schema, rows.name, tuple(taken), encoded=encoded)
    nodes = [*encoding.nodes, *graph.node]
    del graph.input[:]
    del graph.node[:]
    graph.input.extend(encoding.inputs)
    graph.node.extend(nodes)
    graph.initializer.extend(encoding.initializers)
    if all(opset.domain != "ai.onnx.ml" for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    return model


def feeds(table: RawTable, input_names: Sequence[str]) -> Mapping[str, Array]:
    """Return what a graph's inputs take for a table that the schema matched, by their names."""
    return {name: _tensor(cells) for name, cells in zip(input_names, table.columns, strict=True)}


def _tensor(cells: Cells) -> Array:
    if cells.kind != "text":
        return cells.values[:, None]
    texts = np.empty((len(cells.values), 1), dtype=object)
    texts[:, 0] = ["" if text is None else text for text in cells.values.tolist()]
    return texts
