"""VOLTA: unit embeddings, learnable unit prototypes, a learned and then refitted temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from volta.core.checks import check_count, check_number
from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import MAX_PASSES, Method, StackedPrediction
from volta.methods.scores import Floats, one_minus_max_softmax, softmax, softmax_and_doubt
from volta.methods.temperature import fit_temperature
from volta.networks.modules import Encoder, Prototypes
from volta.networks.network import stack_networks
from volta.networks.objectives import CrossEntropy, VoltaLosses
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer, volta_setup

if TYPE_CHECKING:
    from torch import Tensor


EncoderName = Literal["residual", "deep", "shallow"]


@dataclass
class Volta(Method):
    """z = g(h)/|g(h)|, s_k = z·p_k, p = softmax(β s), u = 1 − max_k softmax(s/τ_unc)_k.

    g is a small encoder, p_k are unit prototypes, τ = exp(φ) is learned with them by cross-entropy; β = 1/τ is then
    refitted on validation rows with everything else frozen. One forward pass, no sampling. The defaults are the paper's
    simplified VOLTA; full VOLTA and the ablation's rows are other settings of the same class.

    Parameters
    ----------
    temperature, learn_temperature
        τ at the start of training, and whether it is learned.
    refit_temperature
        Whether β is refitted after training; else β = 1/τ as learned.
    uncertainty_temperature
        τ_unc of the uncertainty score.
    encoder
        ``residual``: the paper's simplified encoder (for tabular data without a residual); ``deep``: 256, 128, then a
        projection to 256; ``shallow``: 256, then a projection to 256; both with dropout 0.1.
    margin, reconstruction, diversity, contrastive
        Weights of full VOLTA's auxiliary losses; see :class:`volta.networks.objectives.VoltaLosses`.
    n_passes
        Passes with dropout on whose similarities' softmax is averaged; 0 is one deterministic pass. β is always fitted
        on the deterministic pass.
    """

    title = "VOLTA"
    origin = "volta"
    paper_inputs = "features"

    temperature: float = 0.1
    learn_temperature: bool = True
    refit_temperature: bool = True
    uncertainty_temperature: float = 0.1
    encoder: EncoderName = "residual"
    margin: float = 0.0
    reconstruction: float = 0.0
    diversity: float = 0.0
    contrastive: float = 0.0
    n_passes: int = 0

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_number(self.temperature, "temperature")
        check_number(self.uncertainty_temperature, "uncertainty_temperature")
        for name in ("margin", "reconstruction", "diversity", "contrastive"):
            check_number(getattr(self, name), name, zero=True)
        check_count(self.n_passes, "n_passes", least=0, most=MAX_PASSES)
        if self.encoder not in (known := get_args(EncoderName)):
            raise InputError(f"encoder is {self.encoder!r}; it is one of {', '.join(known)}")

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        encoder, recipe = volta_setup(data, trainer.protocol)
        head = Prototypes(self.temperature, self.learn_temperature)
        losses = VoltaLosses(self.margin, self.reconstruction, self.diversity, self.contrastive)
        spec = NetworkSpec(self._encoder(encoder), head, data.input_shape, data.n_classes)
        self.network_ = trainer.network(data, spec, recipe, CrossEntropy() if losses == VoltaLosses() else losses)
        self.seed_ = trainer.seed
        self.beta_ = 1.0 / self.learned_temperature
        if self.refit_temperature:
            logits = trainer.outputs(self.network_, data, "val").logits
            similarities, weights = self._similarities(logits), data.val.weights
            self.beta_ = fit_temperature(similarities, data.val.labels, start=self.beta_, weights=weights)

    def _predict(self, inputs: Array) -> Prediction:
        if self.n_passes == 0:
            logits, learned = self.network_.outputs(inputs).logits, self.network_.temperature
            uncertainty = one_minus_max_softmax(logits, learned / self.uncertainty_temperature)
            return Prediction(softmax(logits, self.beta_ * learned), uncertainty)
        generators = [rng(self.seed_, "volta", index) for index in range(self.n_passes)]
        probs = np.empty((len(inputs), self.network_.spec.n_classes))
        uncertainty = np.empty(len(inputs))
        for rows, passes in self.network_.sampled_logits(inputs, generators):
            similarities = [self._similarities(logits) for logits in passes]
            probs[rows] = np.mean([softmax(self.beta_ * each) for each in similarities], axis=0)
            sharp = np.mean([softmax(each / self.uncertainty_temperature) for each in similarities], axis=0)
            uncertainty[rows] = 1.0 - sharp.max(axis=1)
        return Prediction(probs, uncertainty)

    @classmethod
    def stacked(cls, methods: Sequence[Volta]) -> StackedPrediction | None:
        """Return what predicts a few rows by several fits at once, where each makes one pass."""
        arrays = stack_networks([method.network_ for method in methods])
        if arrays is None or any(method.n_passes for method in methods):
            return None
        learned = np.array([method.learned_temperature for method in methods])
        cooled = learned * [method.beta_ for method in methods]
        sharp = learned / [method.uncertainty_temperature for method in methods]
        scales = np.stack([cooled, sharp])[:, :, None, None]

        def predict(rows: Array) -> tuple[Array, Array]:
            logits = arrays.outputs(rows)[0]
            # Both temperatures in one pass: for few rows the calls are what takes time.
            probs, doubt = softmax_and_doubt((logits * scales).reshape(-1, logits.shape[2]))
            return probs.reshape(2, *logits.shape)[0], doubt.reshape(2, *logits.shape[:2])[1]

        return predict

    def graph(self) -> graphs.MethodGraph:
        """Return the network and the formula of the deterministic pass on its logits, for ONNX graphs."""
        if self.n_passes:
            raise InputError(
                f"{self.title} samples {self.n_passes} passes at test time, which cannot be exported to ONNX; "
                "fit it with n_passes=0"
            )
        learned = self.learned_temperature

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            logits = outputs[0].logits
            sharp = logits * (learned / self.uncertainty_temperature)
            return graphs.prediction(
                graphs.softmax_at(logits, self.beta_ * learned), graphs.one_minus_max_softmax(sharp)
            )

        return graphs.MethodGraph([self.network_], formula)

    def _encoder(self, residual: Encoder) -> Encoder:
        hidden = {"residual": residual.hidden, "deep": (256, 128), "shallow": (256,)}[self.encoder]
        if self.encoder == "residual":
            return residual
        return replace(residual, hidden=hidden, dropout=0.1, projection=256, residual=False)

    def _similarities(self, logits: Floats) -> Floats:
        return logits * self.learned_temperature

    @property
    def learned_temperature(self) -> float:
        """τ as training left it."""
        return self.network_.temperature
