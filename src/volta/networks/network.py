"""A trained network: its description, its weights, and what it gives for rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from volta.core.types import Array
from volta.networks.array_form import FEW_ROWS, Step, array_form
from volta.networks.heads import PrototypeHead
from volta.networks.layers import sampled_from
from volta.networks.outputs import LastLayer, Outputs
from volta.networks.rows import EVAL_ROWS, InputRows
from volta.networks.sampling import cut
from volta.networks.spec import Classifier, NetworkSpec
from volta.networks.training_log import TrainingLog


class ExactRows(np.ndarray[Any, np.dtype[np.float64]]):
    """Feature rows (n, d) of float64 that a network is to compute in float64."""


@dataclass(frozen=True, eq=False)
class Network:
    """A trained classifier. ``key`` is a hash of all that decided its weights."""

    spec: NetworkSpec
    classifier: Classifier
    log: TrainingLog
    key: str
    device: torch.device

    def outputs(self, inputs: Array) -> Outputs:
        """Return logits, penultimate vectors and the last layer where it is linear, in evaluation mode.

        :class:`ExactRows` are computed in float64 on a processor, so that a row gets the same numbers by itself and
        among others, far beyond float32; all other inputs are computed in float32, as networks are trained.
        """
        if not (isinstance(inputs, ExactRows) and self.device.type == "cpu"):
            return self._run(self.classifier, InputRows(inputs, self.device).eval_batches(), len(inputs))
        rows = np.asarray(inputs)
        if len(rows) > FEW_ROWS or self._array_form is None:
            starts = range(0, len(rows), EVAL_ROWS)
            pieces = (torch.from_numpy(np.array(rows[start : start + EVAL_ROWS])) for start in starts)
            return self._run(self._wide, pieces, len(rows))
        body, head = self._array_form
        encoded = body(rows)
        return Outputs.trusted(head(encoded), encoded.astype(np.float32), self._last_layer)

    @torch.inference_mode()
    def _run(self, classifier: Classifier, batches: Iterator[Tensor], n_rows: int) -> Outputs:
        if classifier.training:
            classifier.eval()
        logits = np.empty((n_rows, self.spec.n_classes), dtype=np.float64)
        features = np.empty((n_rows, self.spec.body.width), dtype=np.float32)
        start = 0
        for batch in batches:
            encoded = classifier.body(batch)
            stop = start + len(batch)
            features[start:stop] = encoded.cpu().numpy()
            logits[start:stop] = classifier.head(encoded).cpu().numpy()
            start = stop
        return Outputs(logits, features, self._last_layer)

    @cached_property
    def temperature(self) -> float:
        """τ of a head of prototypes as training left it."""
        return cast(PrototypeHead, self.classifier.head).temperature

    @cached_property
    def _wide(self) -> Classifier:
        """The classifier in float64."""
        return copy.deepcopy(self.classifier).double().eval()

    @cached_property
    def _array_form(self) -> tuple[Step, Step] | None:
        return array_form(self.spec, self.classifier)

    @cached_property
    def _last_layer(self) -> LastLayer | None:
        return self.classifier.head.last_layer()

    def sampled_logits(
        self, inputs: Array, generators: Sequence[np.random.Generator]
    ) -> Iterator[tuple[slice, list[NDArray[np.float64]]]]:
        """Walk the rows in pieces, with the logits of one pass a generator: dropout on, all else in evaluation mode.

        What lies before the first dropout layer is computed once for all passes.
        """
        first, rest = cut(self.classifier.eval().body)
        start = 0
        for batch in InputRows(inputs, self.device).eval_batches():
            passes = []
            with torch.inference_mode():
                shared = first(batch)
                for random in generators:
                    with sampled_from(random):
                        passes.append(self.classifier.head(rest(shared)).double().cpu().numpy())
            rows = slice(start, start + len(batch))
            yield rows, passes
            start = rows.stop

    def __getstate__(self) -> dict[str, Any]:
        """Leave out of copies and pickles what is computed again once it is needed."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def copy(self) -> Classifier:
        """Return a classifier with the same weights and memory of its own."""
        classifier = self.spec.build(seed=0)
        classifier.load_state_dict(self.classifier.state_dict())
        return classifier.to(self.device).eval()

    def tensors(self) -> dict[str, Array]:
        """Return the weights as arrays by name."""
        return {name: value.detach().cpu().numpy() for name, value in self.classifier.state_dict().items()}

    def to_json(self) -> dict[str, Any]:
        """Return all but the weights as a JSON value."""
        return {"spec": self.spec.to_json(), "log": asdict(self.log), "key": self.key}

    @classmethod
    def from_parts(cls, value: dict[str, Any], tensors: dict[str, Array], device: torch.device) -> Network:
        """Return the network that :meth:`to_json` and :meth:`tensors` described."""
        spec = NetworkSpec.from_json(value["spec"])
        spec.check_shapes({name: array.shape for name, array in tensors.items()})
        classifier = spec.build(seed=0)
        classifier.load_state_dict({name: torch.from_numpy(_writable(array)) for name, array in tensors.items()})
        log = TrainingLog(**{**value["log"], "val_losses": tuple(value["log"]["val_losses"])})
        if device.type != "cpu":
            # It is built on the processor; walking through it for nothing is a part of what loading costs.
            classifier = classifier.to(device)
        return cls(spec, classifier.eval(), log, value["key"], device)


def _writable(array: Array) -> Array:
    """Return an array that torch takes without a warning; it is copied from in any case."""
    return array if array.flags.writeable else np.array(array)
