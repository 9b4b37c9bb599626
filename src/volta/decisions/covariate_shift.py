"""Covariate shift: weights from an unlabelled batch, and conformal p-values, flags and sets that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import as_rows, check_count, check_same_length, check_scores, check_weights
from volta.core.errors import InputError
from volta.core.types import Array
from volta.decisions.conformal import Floats, float_level

_SUREST = 1e-6


@dataclass(frozen=True, eq=False)
class ShiftWeights:
    """How much likelier each sample is in the batch than among calibration samples; made by `shift_weights`.

    ``calibration`` (n,), ``batch`` (m,): w = dQ/dP up to a factor, P the law of calibration and Q of batch samples.
    """

    calibration: Floats
    batch: Floats

    @property
    def effective_n(self) -> float:
        """How many calibration samples of the batch's own law say as much: Kish's (Σ w)² / Σ w², times min(1, Σ w / n).

        w is 1 on average over calibration samples where they are like all of the batch; below 1 it is the share of the
        batch that they are like.
        """
        total = float(self.calibration.sum())
        return total**2 / float(np.sum(self.calibration**2)) * min(1.0, total / len(self.calibration))

    def pvalues(self, calibration: ArrayLike, scores: ArrayLike) -> Floats:
        """Return weighted conformal p-values p(x) = (Σ_i w_i [c_i ≥ s(x)] + w(x)) / (Σ_i w_i + w(x)).

        Guarantee: P(p ≤ t) ≤ t over calibration and batch together, where w is dQ/dP up to a factor and the score was
        made without the calibration samples. With weights ŵ of mean 1 that were estimated on other samples it is
        P(p ≤ t) ≤ t + ½ E_P |ŵ − w|: what a batch has that no calibration sample is like cannot be weighed. Weights of
        `shift_weights` come from other folds of the same samples; of them the bound is an approximation. Labels given
        features must be as before.
        Reference: Tibshirani, Barber, Candès and Ramdas (2019), Conformal Prediction under Covariate Shift; Lei and
        Candès (2021), Conformal Inference of Counterfactuals and Individual Treatment Effects, for the estimated form.
        calibration: (n,) scores; scores: (m,) of the batch, or (m, n_classes); higher = less conforming.
        """
        own = check_scores(calibration, "calibration")
        check_same_length(weights=self.calibration, calibration=own)
        values = np.asarray(scores, dtype=np.float64)
        if values.ndim not in (1, 2) or len(values) != len(self.batch) or np.isnan(values).any():
            raise InputError(
                f"scores has shape {values.shape}; pass ({len(self.batch)},) or ({len(self.batch)}, n_classes) without "
                "NaN, one for each sample of the batch"
            )
        order = np.argsort(own, kind="stable")
        beyond = np.append(np.cumsum(self.calibration[order][::-1])[::-1], 0.0)
        at_least = beyond[np.searchsorted(own[order], values)]
        new = self.batch.reshape(-1, *[1] * (values.ndim - 1))
        return np.asarray((at_least + new) / (beyond[0] + new))

    def flags(self, calibration: ArrayLike, scores: ArrayLike, *, fpr: float = 0.05) -> NDArray[np.bool_]:
        """Return ``pvalues(...) <= fpr``: at most ``fpr`` of batch samples that follow Q are flagged, see `pvalues`."""
        self._check(fpr, "fpr")
        return np.asarray(self.pvalues(calibration, scores) <= float_level(fpr, "fpr"))

    def sets(self, true_scores: ArrayLike, scores: ArrayLike, *, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Return (m, n_classes) sets {k : p_k(x) > alpha}, which miss the class at most ``alpha`` of the time.

        true_scores: (n,) of each calibration sample's own class; scores: (m, n_classes). Guarantee: that of `pvalues`.
        """
        self._check(alpha, "alpha")
        return np.asarray(self.pvalues(true_scores, scores) > float_level(alpha, "alpha"))

    def _check(self, level: float, name: str) -> None:
        needed = 1 / float_level(level, name)
        if self.effective_n < needed:
            raise InputError(
                f"{name} is {level:g}, which needs an effective sample size of {needed:.3g}; under the batch's weights "
                f"the {len(self.calibration)} calibration samples are worth {self.effective_n:.3g}: the batch is too "
                "unlike them; label some of the batch and calibrate on those"
            )


def shift_weights(
    calibration: ArrayLike, batch: ArrayLike, *, classifier: Any = None, n_folds: int = 5, rng: np.random.Generator
) -> ShiftWeights:
    """Weigh calibration samples as a batch without labels is distributed: ŵ = (n / m) π / (1 − π).

    π(x): the probability that x is of the batch, of n calibration and m batch samples, by a classifier fitted without
    x's fold, so that no sample is told by memory. It is scikit-learn's logistic regression on standardised features
    unless ``classifier``, unfitted, is set. The weights are as good as π is calibrated; see `ShiftWeights.pvalues`.
    calibration: (n, d) features, or scores that carry the shift; batch: (m, d).

    >>> rng = np.random.default_rng(0)
    >>> weights = shift_weights(rng.normal(size=(500, 2)), rng.normal(0.7, size=(200, 2)), rng=rng)
    >>> 100 < weights.effective_n < 400
    True
    """
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    before, after = as_rows(calibration, "calibration"), as_rows(batch, "batch")
    if before.shape[1] != after.shape[1]:
        raise InputError(
            f"batch has {after.shape[1]} columns but calibration {before.shape[1]}; pass the same features"
        )
    for name, given in (("calibration", before), ("batch", after)):
        if len(given) < 2:
            raise InputError(f"{name} has 1 row; pass at least 2, so that each is weighed by a fit that has others")
    model = classifier if classifier is not None else make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    rows: Array = np.concatenate([before, after])
    is_new = np.arange(len(rows)) >= len(before)
    folds = np.empty(len(rows), dtype=np.intp)
    for own in (is_new, ~is_new):
        folds[own] = rng.permutation(np.count_nonzero(own)) % check_count(n_folds, "n_folds", least=2)
    share = np.empty(len(rows))
    for fold in range(n_folds):
        held_out = folds == fold
        if held_out.any():
            fitted = clone(model).fit(rows[~held_out], is_new[~held_out])
            share[held_out] = fitted.predict_proba(rows[held_out])[:, 1]
    share = np.clip(share, _SUREST, 1 - _SUREST)
    ratio = check_weights(len(before) / len(after) * share / (1 - share), "weights")
    return ShiftWeights(ratio[: len(before)], ratio[len(before) :])
