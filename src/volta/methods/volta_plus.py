"""VOLTA+: VOLTA with a better recipe and a better score for OOD rows, both chosen on validation rows alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from volta.core.seeding import rng
from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Method
from volta.methods.scaling import fit_temperature
from volta.methods.scores import Floats, energy, one_minus_max_softmax, softmax
from volta.methods.subspaces import MinorSpace, fit_minor_space
from volta.networks.bodies import Encoder
from volta.networks.heads import PrototypeHead, Prototypes
from volta.networks.protocols import volta_setup
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer

if TYPE_CHECKING:
    from torch import Tensor

RESIDUAL_WEIGHTS = (0.0, 0.0625, 0.125, 0.25, 0.5)
_MAX_HELD_OUT_CLASSES = 10


@dataclass
class VoltaPlus(Method):
    """p = softmax(β s) as in VOLTA; u = 1 − max p; OOD score = e + w r, both standardised on validation rows.

    s are the cosines of VOLTA's vision encoder, trained with more dropout and weight decay, a lower learning rate, and
    an exponential moving average of the weights; e = −log Σ_k exp(β s_k) is the free energy; r = |Rᵀ(h − μ)| is the
    length of the features h outside the main half of the training features' principal directions. w is the weight, of
    a few tried, under which validation rows of a class are best told from the others once that class is taken out of
    the prototypes and of the principal directions: no OOD row is ever seen. One forward pass, no sampling.
    Under ``fair`` its one complete cycle has ``n_epochs`` epochs and at least ``min_steps`` steps, more than VOLTA's:
    dropout, the lower learning rate and the moving average need them. Under ``paper`` it trains as long as VOLTA does.
    """

    title = "VOLTA+"
    origin = "extra"
    paper_inputs = "features"
    learned_types = (MinorSpace,)

    dropout: float = 0.3
    lr: float = 5e-4
    weight_decay: float = 5e-2
    averaging: float = 0.999
    batch_size: int = 512
    n_epochs: int = 30
    min_steps: int = 240

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        _, volta_recipe = volta_setup(data, trainer.protocol)
        recipe = replace(
            volta_recipe,
            lr=self.lr,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            averaging=self.averaging,
        )
        if trainer.protocol == "fair":
            recipe = replace(recipe, max_epochs=self.n_epochs, min_steps=self.min_steps)
        encoder = Encoder(hidden=(512, 256), dropout=self.dropout, residual=True)
        spec = NetworkSpec(encoder, Prototypes(), data.input_shape, data.n_classes)
        self.network_ = trainer.train(spec, data, recipe)
        learned = cast(PrototypeHead, self.network_.classifier.head).temperature
        similarities = trainer.outputs(self.network_, data.val.inputs).logits * learned
        self.beta_ = fit_temperature(similarities, data.val.labels, 1.0 / learned, data.val.weights).beta
        logits = self.beta_ * similarities
        self.minor_ = _around_mean(data.train.inputs)
        free, residual = energy(logits), self.minor_.lengths(data.val.inputs)
        self.energy_scale_ = (float(free.mean()), float(free.std()) or 1.0)
        self.residual_scale_ = (float(residual.mean()), float(residual.std()) or 1.0)
        self.weight_ = choose_weight(data, logits, rng(trainer.seed, "volta_plus"))

    def _predict(self, inputs: Array) -> Prediction:
        logits = self.beta_ * self._similarities(inputs)
        free = (energy(logits) - self.energy_scale_[0]) / self.energy_scale_[1]
        outside = (self.minor_.lengths(inputs) - self.residual_scale_[0]) / self.residual_scale_[1]
        return Prediction(softmax(logits), one_minus_max_softmax(logits), ood_score=free + self.weight_ * outside)

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula on its logits and the features, for ONNX graphs."""
        scale = self.beta_ * cast(PrototypeHead, self.network_.classifier.head).temperature

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            logits = scale * outputs[0].logits
            free = (graphs.energy(logits) - self.energy_scale_[0]) / self.energy_scale_[1]
            lengths = self.minor_.lengths_of_tensors(inputs.double())
            outside = (lengths - self.residual_scale_[0]) / self.residual_scale_[1]
            doubt = graphs.one_minus_max_softmax(logits)
            return graphs.prediction(logits.softmax(dim=1), doubt, free + self.weight_ * outside)

        return graphs.MethodGraph([self.network_], formula)

    def _similarities(self, inputs: Array) -> Floats:
        head = cast(PrototypeHead, self.network_.classifier.head)
        return self.network_.outputs(inputs).logits * head.temperature


def choose_weight(data: FitData, logits: Floats, random: np.random.Generator) -> float:
    """Return the weight of the residual that best separates held-out classes of the validation rows from the rest."""
    labels = data.val.labels
    classes = [c for c in np.unique(labels) if (data.train.labels == c).any() and data.n_classes > 2]
    scores = np.zeros(len(RESIDUAL_WEIGHTS))
    for held_out in random.permutation(classes)[:_MAX_HELD_OUT_CLASSES].astype(np.int64):
        known = labels != held_out
        kept = data.train.inputs[data.train.labels != held_out]
        if not known.any() or len(kept) < 2:
            continue
        free = _standardised(energy(np.delete(logits, held_out, axis=1)), known)
        outside = _standardised(_around_mean(kept).lengths(data.val.inputs), known)
        scores += [_separation(free + weight * outside, known) for weight in RESIDUAL_WEIGHTS]
    return RESIDUAL_WEIGHTS[int(np.argmax(scores))]


def _around_mean(features: Array) -> MinorSpace:
    return fit_minor_space(features, np.asarray(features.mean(axis=0, dtype=np.float64)))


def _standardised(values: Floats, known: NDArray[np.bool_]) -> Floats:
    return np.asarray((values - values[known].mean()) / (values[known].std() or 1.0))


def _separation(scores: Floats, known: NDArray[np.bool_]) -> float:
    """Return the probability that an unknown row scores above a known one (ties count half)."""
    from scipy.stats import rankdata

    ranks = rankdata(scores)[~known]
    n_unknown, n_known = len(ranks), int(known.sum())
    return float((ranks.sum() - n_unknown * (n_unknown + 1) / 2) / (n_unknown * n_known))
