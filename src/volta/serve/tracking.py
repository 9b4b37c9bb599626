"""Fits, cards and evaluations in MLflow, and saved classifiers as MLflow models without pickle."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.core.errors import InputError, MissingDataError, VoltaWarning

if TYPE_CHECKING:
    from volta.estimators.deciding import DecidingMixin
    from volta.predictions.evaluate import Evaluation
    from volta.serve.models import ServedModel


def log_to_mlflow(subject: DecidingMixin | Evaluation, *, name: str = "volta") -> None:
    """Log a fitted classifier, or an evaluation, to the active MLflow run; without one MLflow begins one.

    Of a classifier: its parameters, what the calibration samples say of it, its model card where it has one, and the
    classifier itself as a ``pyfunc`` model called ``name``, whose ``predict`` takes a data frame and returns the
    decisions of its rows. The model is the saved file, read by :func:`volta.load`: nothing is pickled. Of an
    evaluation: its metrics, called ``SET/METRIC``.

    >>> from volta import VoltaClassifier, log_to_mlflow
    >>> log_to_mlflow(VoltaClassifier().fit(rows, labels))  # doctest: +SKIP
    """
    try:
        import mlflow
    except ImportError as error:
        raise MissingDataError("log_to_mlflow needs MLflow; install it with: pip install mlflow") from error
    from volta.estimators.deciding import DecidingMixin
    from volta.predictions.evaluate import Evaluation

    if isinstance(subject, Evaluation):
        mlflow.log_metrics(
            {
                # MLflow's names have no plus sign.
                f"{eval_set.replace('+', ' ')}/{metric}": value
                for eval_set, values in subject.metrics.items()
                for metric, value in values.items()
                if np.isfinite(value)
            }
        )
        return
    if not isinstance(subject, DecidingMixin):
        raise InputError(f"subject is a {type(subject).__name__}; pass a fitted classifier or an Evaluation of volta")
    classifier: Any = subject
    classifier._fitted()
    mlflow.log_params({key: str(value)[:500] for key, value in classifier.get_params(deep=False).items()})
    kept, policy = classifier.calibration_, classifier.policy_
    metrics = {
        "calibration/rows": float(len(kept.labels)),
        "calibration/accuracy": float(np.mean(kept.predicted == kept.labels)),
        "calibration/nll": float(-np.log(np.maximum(kept.true_probs, np.finfo(np.float64).tiny)).mean()),
        "policy/coverage": policy.coverage if policy.exists else 0.0,
    }
    mlflow.log_metrics(metrics | ({} if policy.max_error is None else {"policy/max_error": policy.max_error}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        classifier.save(path)
        _log_card(classifier, path)
        mlflow.pyfunc.log_model(name=name, loader_module="volta.serve.tracking", data_path=str(path))


def _log_card(classifier: Any, path: Path) -> None:
    import mlflow

    from volta.estimators.card import calibration_evidence, card_html, card_markdown, make_card
    from volta.estimators.classifier import VoltaClassifier

    if isinstance(classifier, VoltaClassifier):
        made = make_card(classifier, path, calibration_evidence(classifier))
        mlflow.log_text(card_html(made), "card.html")
        mlflow.log_text(card_markdown(made), "card.md")


class PyfuncModel:
    """What MLflow serves: rows of a data frame to a data frame of decisions."""

    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return action, label, probability, uncertainty, p-value, set and reason of each row; bad rows abstain."""
        import pandas

        frame = model_input if hasattr(model_input, "to_dict") else pandas.DataFrame(model_input)
        rows = frame.astype(object).where(frame.notna(), None)
        cells = [list(row) for row in rows.itertuples(index=False)]
        if self._model.columns is not None and set(self._model.columns) <= set(map(str, frame.columns)):
            cells = [dict(zip(map(str, frame.columns), row, strict=True)) for row in cells]  # type: ignore[misc]
        values, problems = self._model.parse(cells)
        good = np.array([problem is None for problem in problems], dtype=np.bool_)
        found = pandas.DataFrame(index=frame.index, data={"action": "abstain", "reason": problems})
        if good.any():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VoltaWarning)
                decided = pandas.DataFrame(self._model.score(values).decisions.to_array())
            decided.index = frame.index[good]
            found = decided.reindex(frame.index)
            found.loc[~good, "action"] = "abstain"
            found.loc[~good, "reason"] = [problem for problem in problems if problem is not None]
        return found


def _load_pyfunc(path: str) -> PyfuncModel:
    """Return the model of a file, for ``mlflow.pyfunc.load_model``."""
    from volta.serve.models import load_served

    return PyfuncModel(load_served(Path(path)))
