"""VOLTA: uncertainty-aware classification on frozen features, and a benchmark of it against ten baselines."""

from typing import TYPE_CHECKING, Any

from volta._version import __version__

if TYPE_CHECKING:
    from volta.estimators.classifier import VoltaClassifier

__all__ = ["VoltaClassifier", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the estimator, and torch with it, only when it is used."""
    if name == "VoltaClassifier":
        from volta.estimators.classifier import VoltaClassifier

        return VoltaClassifier
    raise AttributeError(f"module 'volta' has no attribute {name!r}")
