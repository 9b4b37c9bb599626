"""A trained network: its description, its weights, and what it gives for rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from volta.core.types import Array
from volta.networks.layers import Dropout, seed_layers
from volta.networks.outputs import Outputs
from volta.networks.rows import InputRows
from volta.networks.spec import Classifier, NetworkSpec
from volta.networks.training_log import TrainingLog


@dataclass(frozen=True, eq=False)
class Network:
    """A trained classifier. ``key`` is a hash of all that decided its weights."""

    spec: NetworkSpec
    classifier: Classifier
    log: TrainingLog
    key: str
    device: torch.device

    @torch.inference_mode()
    def outputs(self, inputs: Array) -> Outputs:
        """Return logits, penultimate vectors and the last layer where it is linear, in evaluation mode."""
        if self.classifier.training:
            self.classifier.eval()
        logits = np.empty((len(inputs), self.spec.n_classes), dtype=np.float64)
        features = np.empty((len(inputs), self.spec.body.width), dtype=np.float32)
        start = 0
        for batch in InputRows(inputs, self.device).eval_batches():
            encoded = self.classifier.body(batch)
            stop = start + len(batch)
            features[start:stop] = encoded.cpu().numpy()
            logits[start:stop] = self.classifier.head(encoded).cpu().numpy()
            start = stop
        return Outputs(logits, features, self.classifier.head.last_layer())

    def sample_logits(self, inputs: Array, random: np.random.Generator) -> NDArray[np.float64]:
        """Return the logits of one pass with dropout on and everything else in evaluation mode."""
        seed_layers(self.classifier, random)
        layers = [layer for layer in self.classifier.modules() if isinstance(layer, Dropout)]
        try:
            for layer in layers:
                layer.sampling = True
            return self.outputs(inputs).logits
        finally:
            for layer in layers:
                layer.sampling = False

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
        return cls(spec, classifier.to(device).eval(), log, value["key"], device)


def _writable(array: Array) -> Array:
    """Return an array that torch takes without a warning; it is copied from in any case."""
    return array if array.flags.writeable else np.array(array)
