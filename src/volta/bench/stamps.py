"""Which code a cell's result rests on, in three parts that change apart. Importing this needs no torch.

A changed *training* stamp means other weights, a changed *method* stamp other predictions: both are in the cell's key.
A changed *scoring* stamp means other metrics of the same predictions: it is in the record, and metrics are computed
again from what is stored. How costs are measured is in none: measurements are not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volta.bench.scoring import metrics_of
from volta.core.files import hash_text
from volta.core.json_fields import JsonFields, JsonObject
from volta.core.plugins import package_version
from volta.core.source_stamp import file_of, source_stamp
from volta.metrics.brought import plugin_metrics

if TYPE_CHECKING:
    from volta.methods.base import Method


@dataclass(frozen=True)
class Stamps:
    """Hashes of the code that decides weights, predictions and metrics; empty in records of a version without them."""

    training: str
    method: str
    scoring: str

    def to_json(self) -> JsonObject:
        """Return the JSON object that :meth:`from_json` reads."""
        return {"training": self.training, "method": self.method, "scoring": self.scoring}

    @classmethod
    def from_json(cls, stored: JsonFields) -> Stamps:
        """Return the stamps that :meth:`to_json` wrote."""
        return cls(stored.text("training"), stored.text("method"), stored.text("scoring"))


NO_STAMPS = Stamps("", "", "")


def stamps_of(method: Method) -> Stamps:
    """Return the stamps of a cell that runs ``method`` with the code as it is.

    Versions of other libraries are recorded with each cell and are not part of any stamp.
    """
    from volta.bench.evaluate import predict_sets
    from volta.networks.loop import train_from_scratch

    return Stamps(
        training=source_stamp([file_of(train_from_scratch)]),
        method=source_stamp([file_of(type(method)), file_of(predict_sets)]),
        scoring=scoring_stamp(),
    )


def scoring_stamp() -> str:
    """Return the stamp of the code that turns stored predictions into metrics, that of plug-ins too."""
    brought = [metric.function for metric in plugin_metrics().values() if metric.function is not None]
    stamp = source_stamp([file_of(metrics_of), *map(file_of, brought)])
    packages = sorted({package_version(function.__module__) for function in brought})
    return hash_text("\n".join([stamp, *packages])) if packages else stamp
