"""VOLTA+: one wide layer beside a linear map; OOD by free energy and distance together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count, check_number
from volta.core.types import Array, FitData, Prediction, Split
from volta.methods import graphs
from volta.methods.base import Method, at_least_0, checked, optional
from volta.methods.knn import MOST_ROWS, Neighbours, even_steps, kth_chord, n_neighbours, unit
from volta.methods.mahalanobis import Distances, Gaussians, fit_shrunk_distances
from volta.methods.scores import Floats, energy, entropy, one_minus_max_softmax, softmax
from volta.methods.temperature import fit_share, fit_temperature, half_a_row
from volta.networks.modules import Even, EvenEncoder, Linear, Prototypes, Wide, fit_even, prepared
from volta.networks.network import Network
from volta.networks.outputs import Outputs
from volta.networks.recipe import Recipe
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer, need_features, volta_setup

if TYPE_CHECKING:
    from torch import Tensor


MOST_HELD_OUT = 2048
DistanceScore: TypeAlias = Callable[[Floats, NDArray[np.bool_]], Floats]
"""From M, M − M_0 and what else is seen in rows, as columns, and which rows are of known classes, to a score."""


def neighbours_tell_more(gains: Mapping[int, float]) -> bool:
    """Whether the AUROC that neighbours gain, :func:`_gains` of each class, exceeds its standard error over classes."""
    found = np.array(list(gains.values()))
    return len(found) > 1 and bool(found.mean() > found.std(ddof=1) / np.sqrt(len(found)))


def _gains(distances: Distances, train: Split, val: Split, more: Floats, score: DistanceScore) -> dict[int, float]:
    """Return for each class the AUROC of neighbours less that of Gaussians where the class plays the OOD rows.

    The mean and the training rows of the class are left out, and its validation rows are told from those of all other
    classes: once by ``score`` of the ``distances`` fitted on ``train``, and once by the angle to the k-th neighbour
    among at most 1,024 training rows. ``more`` (n,) is what else the score sees in validation rows. No network is
    asked: one that was trained on a class knows it.
    """
    classes, kept, held_out = (
        np.unique(train.labels),
        even_steps(len(train), MOST_ROWS),
        even_steps(len(val), MOST_HELD_OUT),
    )
    if len(classes) < 2:
        return {}
    rows, labels, more = val.inputs[held_out], val.labels[held_out], more[held_out]
    squared = distances.classes.squared_distances(rows)
    nearest_class, (nearest, second) = squared.argmin(axis=1), np.partition(squared, 1, axis=1)[:, :2].T
    overall = distances.background.squared_distances(rows)[:, 0]
    bank, bank_labels = train.inputs[kept], train.labels[kept]
    k = n_neighbours(len(bank), len(train))
    cosines = unit(rows) @ unit(bank).T
    chord = kth_chord(cosines, k)
    gains: dict[int, float] = {}
    for place, label in enumerate(classes):
        own, others = labels == label, bank_labels != label
        if not own.any() or own.all() or others.sum() < k:
            continue
        without = np.where(nearest_class == place, second, nearest)
        gaussian = score(np.column_stack([without, without - overall, more]), ~own)
        neighbour = chord.copy()
        neighbour[own] = kth_chord(cosines[own][:, others], k)
        gains[int(label)] = _auroc(neighbour, own) - _auroc(gaussian, own)
    return gains


def _auroc(scores: Floats, ood: NDArray[np.bool_]) -> float:
    """Return how often an OOD row's score is above another row's, ties counted half."""
    known = np.sort(scores[~ood])
    below = np.searchsorted(known, scores[ood], "left") + np.searchsorted(known, scores[ood], "right")
    return float(below.mean() / (2 * len(known)))


LEAST_SHRINKAGE = 0.05
FEW_COLUMNS = 128
QUIET = 3
"""Which part of the score counts only where it is above its mean."""


@dataclass(frozen=True)
class Cycle:
    """Width of the layer, and the cycle that it is trained in."""

    hidden: int
    lr: float
    n_epochs: int
    min_steps: int


MANY = Cycle(hidden=1024, lr=2e-3, n_epochs=11, min_steps=120)
FEW = Cycle(hidden=512, lr=2e-2, n_epochs=14, min_steps=60)


@dataclass
class VoltaPlus(Method):
    """p = softmax(β l), u = 1 − max p; OOD score = e + w_m M + w_r (M − M_0) + w_q max(q, 0), or H + w_m M + w_k k.

    Skewed columns of the features become square roots, all are standardised: x. The logits l = W [a, x] + b come from
    one wide layer a with much dropout and from x itself. Where there are at most 128 columns, VOLTA's own network is
    trained as well, and l is a mean of both networks' logits in shares that validation rows decide. β is refitted on
    these. e = −log Σ_k exp(β l_k) is the free energy, no lower than any validation row's, since a far row may have any;
    M is the squared Mahalanobis distance of x to the nearest class mean and M_0 to the mean of all training rows; q is
    how little the rooted columns hold, minus the mean of x over them. H is the entropy of p and k the distance of the
    unit vector of a to its neighbours among training rows: the second kind of score is taken where neighbours tell
    classes that are left out better than Gaussians do. Each part is standardised by its
    mean and deviation on validation rows. One pass, no sampling. Training is one complete cycle under both protocols,
    and its last weights are kept. No OOD row is ever seen.

    Parameters
    ----------
    hidden
        Width of the layer; None: 1,024, and 512 where there are at most 128 columns.
    dropout, input_dropout
        Share of the layer that is dropped in training; share of x, times how far its columns tell each other.
    relative_weight, distance_weight, quiet_weight, neighbour_weight
        w_r, w_m, w_q and w_k.
    neighbours
        Whether the score has neighbours; None: training and validation rows decide.
    partner
        Whether VOLTA's own network is trained as well; None: where there are at most 128 columns.
    """

    title = "VOLTA+"
    origin = "extra"
    paper_inputs = "features"
    learned_types = (Distances, Gaussians, Neighbours)
    checks = checked(
        hidden=optional(check_count),
        batch_size=check_count,
        **dict.fromkeys(("dropout", "input_dropout"), partial(check_number, zero=True, below=1.0)),
        **dict.fromkeys(("weight_decay", "relative_weight", "distance_weight"), at_least_0),
        **dict.fromkeys(("quiet_weight", "neighbour_weight"), at_least_0),
    )

    hidden: int | None = None
    dropout: float = 0.6
    input_dropout: float = 0.1
    weight_decay: float = 0.1
    batch_size: int = 512
    relative_weight: float = 0.5
    distance_weight: float = 0.25
    quiet_weight: float = 0.5
    neighbour_weight: float = 1.0
    neighbours: bool | None = None
    partner: bool | None = None

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        need_features(data)
        cycle = FEW if data.input_shape[0] <= FEW_COLUMNS else MANY
        even = fit_even(data.train.inputs)
        self.rooted_ = np.array(even.rooted)
        gains, of_distances = self._compare_distances(even, data)
        self.network_ = self._wide_network(even, cycle, data, trainer)
        partner = cycle is FEW if self.partner is None else self.partner
        self.partners_ = [_volta_network(even, data, trainer)] if partner else []
        held_out = [trainer.outputs(network, data, "val") for network in self._networks]
        self.betas_ = _fit_betas([found.logits for found in held_out], data)
        logits = self._joined([found.logits for found in held_out])
        self.lowest_energy_ = float(energy(logits).min())
        self.neighbours_ = None
        if neighbours_tell_more(gains) if self.neighbours is None else self.neighbours:
            kept = even_steps(len(data.train), MOST_ROWS)
            hidden = self._hidden(self.network_.outputs(data.train.inputs[kept]))
            self.neighbours_ = Neighbours(unit(hidden), n_neighbours(len(kept), len(data.train)))
        columns = [self._doubt(logits), *of_distances.T]
        if self.neighbours_ is not None:
            columns.append(self.neighbours_.distances(self._hidden(held_out[0])))
        self.scales_ = _scales(np.column_stack(columns))

    def _predict(self, inputs: Array) -> Prediction:
        outputs = [network.outputs(inputs) for network in self._networks]
        logits = self._joined([found.logits for found in outputs])
        even = outputs[0].need_features()[:, -len(self.rooted_) :]
        columns = [self._doubt(logits), *self.distances_.of(even), quiet(even, self.rooted_)]
        if self.neighbours_ is not None:
            columns.append(self.neighbours_.distances(self._hidden(outputs[0])))
        parts = (np.column_stack(columns) - self.scales_[0]) / self.scales_[1]
        parts[:, QUIET] = np.maximum(parts[:, QUIET], 0.0)
        return Prediction(softmax(logits), one_minus_max_softmax(logits), ood_score=parts @ self._weights)

    def graph(self) -> graphs.MethodGraph:
        """Return the networks and the formula on their logits and prepared rows, for ONNX graphs."""
        import torch

        share = graphs.constant(self.rooted_ / max(1, self.rooted_.sum()))
        means, deviations = (graphs.constant(row) for row in self.scales_)
        # Which parts count only where they are above their mean.
        least = torch.full_like(means, -torch.inf)
        least[QUIET] = 0.0

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            logits = torch.stack([beta * found.logits for beta, found in zip(self.betas_, outputs, strict=True)]).sum(0)
            hidden, even = outputs[0].features[:, : self._n_hidden], outputs[0].features[:, self._n_hidden :]
            probs = logits.softmax(dim=1)
            columns = [*self.distances_.of_tensors(even), -(even @ share)]
            if self.neighbours_ is None:
                columns = [graphs.energy(logits).clamp(min=self.lowest_energy_), *columns]
            else:
                columns = [graphs.entropy(probs), *columns, self.neighbours_.distances_of_tensors(hidden)]
            parts = torch.maximum((torch.stack(columns, dim=1) - means) / deviations, least)
            score = parts @ graphs.constant(self._weights)
            return graphs.prediction(probs, graphs.one_minus_max_softmax(logits), score)

        return graphs.MethodGraph(self._networks, formula)

    def _wide_network(self, even: Even, cycle: Cycle, data: FitData, trainer: Trainer) -> Network:
        dropped = self.input_dropout * self.distances_.background.redundancy()
        body = Wide(**vars(even), hidden=self.hidden or cycle.hidden, dropout=self.dropout, input_dropout=dropped)
        size, n_epochs, steps = self.batch_size, cycle.n_epochs, cycle.min_steps
        recipe = Recipe("adamw", cycle.lr, self.weight_decay, "onecycle", size, n_epochs, None, steps)
        return trainer.network(data, NetworkSpec(body, Linear(), data.input_shape, data.n_classes), recipe)

    def _compare_distances(self, even: Even, data: FitData) -> tuple[dict[int, float], Floats]:
        """Learn the distances; return what neighbours gain over them, and M, M − M_0 and q of all validation rows."""
        train, val = _prepared(even, data.train), _prepared(even, data.val)
        self.distances_ = _fit_distances(train)
        little = quiet(val.inputs, self.rooted_)
        gains = _gains(self.distances_, train, val, little, self._of_distances) if self.neighbours is None else {}
        return gains, np.column_stack([*self.distances_.of(val.inputs), little])

    def _doubt(self, logits: Floats) -> Floats:
        """Return the free energy e, or H where there are neighbours."""
        if self.neighbours_ is not None:
            return entropy(softmax(logits))
        return np.maximum(energy(logits), self.lowest_energy_)

    def _of_distances(self, parts: Floats, known: NDArray[np.bool_]) -> Floats:
        """Return what the score without neighbours has of M, M − M_0 and q, standardised on ``known`` rows."""
        means, deviations = _scales(parts[known])
        parts = (parts - means) / deviations
        parts[:, -1] = np.maximum(parts[:, -1], 0.0)
        return np.asarray(parts @ np.array([self.distance_weight, self.relative_weight, self.quiet_weight]))

    def _hidden(self, outputs: Outputs) -> Array:
        """Return a."""
        return outputs.need_features()[:, : self._n_hidden]

    @property
    def _n_hidden(self) -> int:
        return self.network_.spec.body.width - len(self.rooted_)

    def _joined(self, logits: list[Floats]) -> Floats:
        return np.asarray(sum(beta * found for beta, found in zip(self.betas_, logits, strict=True)))

    @property
    def _networks(self) -> list[Network]:
        return [self.network_, *self.partners_]

    @property
    def _weights(self) -> Floats:
        """Of the free energy or H, M, M − M_0, q and, where there are neighbours, k."""
        if self.neighbours_ is None:
            return np.array([1.0, self.distance_weight, self.relative_weight, self.quiet_weight])
        return np.array([1.0, self.distance_weight, 0.0, 0.0, self.neighbour_weight])


def quiet(even: Array, rooted: NDArray[np.bool_]) -> Floats:
    """Return q, minus the mean of x (n, d) over the rooted columns; 0 where there are none.

    Rooted columns are counts and what a ReLU leaves, most often 0: a row in which they hold little is one in which the
    backbone found nothing that it knows.
    """
    return np.asarray(-(even.astype(np.float64) @ (rooted / max(1, rooted.sum()))))


def _volta_network(even: Even, data: FitData, trainer: Trainer) -> Network:
    encoder, recipe = volta_setup(data, "fair")
    body = EvenEncoder(**vars(even), **vars(encoder))
    return trainer.network(data, NetworkSpec(body, Prototypes(), data.input_shape, data.n_classes), recipe)


def _fit_betas(held_out: list[Floats], data: FitData) -> list[float]:
    """Return what each network's logits are multiplied with: shares of the cooled networks, then one temperature."""
    labels, weights, doubt = data.val.labels, data.val.weights, half_a_row(len(data.val))

    def beta_of(logits: Floats) -> float:
        return fit_temperature(logits, labels, weights=weights, doubt=doubt)

    betas = [beta_of(logits) for logits in held_out]
    if len(betas) == 1:
        return betas
    first, second = (beta * logits for beta, logits in zip(betas, held_out, strict=True))
    share = fit_share(first, second, labels, weights, doubt=doubt)
    beta = beta_of((1.0 - share) * first + share * second)
    return [beta * (1.0 - share) * betas[0], beta * share * betas[1]]


def _prepared(even: Even, split: Split) -> Split:
    return Split(prepared(even, split.inputs), split.labels)


def _fit_distances(train: Split) -> Distances:
    return fit_shrunk_distances(train.inputs, train.labels, LEAST_SHRINKAGE)


def _scales(parts: Floats) -> Floats:
    """Return the means and the deviations, 1 where there is none, of columns."""
    deviations = parts.std(axis=0)
    return np.stack([parts.mean(axis=0), np.where(deviations > 0.0, deviations, 1.0)])
