"""VOLTA: uncertainty-aware classification on frozen features, and a benchmark of it against ten baselines.

What is listed in ``__all__`` here, in ``volta.metrics`` and in ``volta.decisions`` is public; every other module is
private and may change in any release. Names are imported when they are first used: ``import volta`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from volta._version import __version__

if TYPE_CHECKING:
    from volta import decisions, metrics
    from volta.api import Run, Table, benchmark, open_run
    from volta.core.errors import InputError, MissingDataError, NotFittedError, StoreError, VoltaError, VoltaWarning
    from volta.core.types import FitData, OodSet, Prediction, Split, Task
    from volta.data import TASKS, find_task
    from volta.decisions.audit import ATTACKS, Attack, Audit, audit
    from volta.estimators.classifier import VoltaClassifier
    from volta.estimators.deciding import TooFewRowsWarning
    from volta.estimators.images import VoltaImageClassifier
    from volta.estimators.inputs import RepeatedRowsWarning
    from volta.estimators.post_hoc import PostHocClassifier, outputs_of
    from volta.estimators.saving import load
    from volta.estimators.trusted import TrustedClassifier
    from volta.methods import METHODS, Method, find_method
    from volta.methods.conformance import check_method
    from volta.metrics import METRICS
    from volta.networks.outputs import LabelledOutputs, LastLayer, Outputs
    from volta.networks.trainer import Trainer
    from volta.predictions.evaluate import Evaluation, EvaluationComparison, compare, evaluate
    from volta.serve.tracking import log_to_mlflow

__all__ = [
    "ATTACKS",
    "METHODS",
    "METRICS",
    "TASKS",
    "Attack",
    "Audit",
    "Evaluation",
    "EvaluationComparison",
    "FitData",
    "InputError",
    "LabelledOutputs",
    "LastLayer",
    "Method",
    "MissingDataError",
    "NotFittedError",
    "OodSet",
    "Outputs",
    "PostHocClassifier",
    "Prediction",
    "RepeatedRowsWarning",
    "Run",
    "Split",
    "StoreError",
    "Table",
    "Task",
    "TooFewRowsWarning",
    "Trainer",
    "TrustedClassifier",
    "VoltaClassifier",
    "VoltaError",
    "VoltaImageClassifier",
    "VoltaWarning",
    "__version__",
    "audit",
    "benchmark",
    "check_method",
    "compare",
    "decisions",
    "evaluate",
    "find_method",
    "find_task",
    "load",
    "log_to_mlflow",
    "metrics",
    "open_run",
    "outputs_of",
]

_HOMES = {
    "volta.api": "benchmark open_run Run Table",
    "volta.core.errors": "InputError MissingDataError NotFittedError StoreError VoltaError VoltaWarning",
    "volta.core.types": "FitData OodSet Prediction Split Task",
    "volta.data": "TASKS find_task",
    "volta.decisions.audit": "ATTACKS Attack Audit audit",
    "volta.estimators.classifier": "VoltaClassifier",
    "volta.estimators.deciding": "TooFewRowsWarning",
    "volta.estimators.images": "VoltaImageClassifier",
    "volta.estimators.inputs": "RepeatedRowsWarning",
    "volta.estimators.post_hoc": "outputs_of PostHocClassifier",
    "volta.estimators.saving": "load",
    "volta.estimators.trusted": "TrustedClassifier",
    "volta.methods": "METHODS Method find_method",
    "volta.methods.conformance": "check_method",
    "volta.metrics": "METRICS",
    "volta.networks.outputs": "LabelledOutputs LastLayer Outputs",
    "volta.networks.trainer": "Trainer",
    "volta.predictions.evaluate": "EvaluationComparison compare Evaluation evaluate",
    "volta.serve.tracking": "log_to_mlflow",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a public name from the module it lives in."""
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in __all__:
        return import_module(f"volta.{name}")
    raise AttributeError(f"module 'volta' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
