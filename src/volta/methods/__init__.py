"""Methods by class and by name: ``volta.methods.Knn(k=10)`` is ``find_method("knn(k=10)").method``.

Names are imported when they are used: the ablation's rows can be named without loading PyTorch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volta.methods.ablation import ABLATION
    from volta.methods.auto import Auto
    from volta.methods.base import Method
    from volta.methods.calibrated import (
        Beta,
        Dirichlet,
        EnsembleTemperature,
        Isotonic,
        Quadratic,
        Spline,
        StructuredMatrixScaling,
        StructuredVectorScaling,
        Temperature,
        VectorScaling,
        VennAbers,
    )
    from volta.methods.conformal import Aps, Conformal
    from volta.methods.energy import Energy, React, Scale
    from volta.methods.enn import Enn
    from volta.methods.ensemble import Ensemble, McDropout, Swag
    from volta.methods.gmm import Gmm
    from volta.methods.hyperbolic import Hyperbolic
    from volta.methods.knn import Knn, NnGuide
    from volta.methods.laplace import Laplace
    from volta.methods.last_layer import Ctm, Dice, Fdbd, Nci, She, Weiper
    from volta.methods.linear import Linear
    from volta.methods.mahalanobis import (
        DeltaMds,
        GlobalMahalanobis,
        Mahalanobis,
        MdsPlus,
        RadialMahalanobis,
        Rmds,
        RmdsPlus,
    )
    from volta.methods.registry import METHODS, RegisteredMethod, find_method, method_names, name_of
    from volta.methods.softmax import Gen, KlMatching, MaxLogit, MaxlogitPnorm, Softmax
    from volta.methods.taylor_sensus import TaylorSensus
    from volta.methods.trees import BoostedTrees, ExtraTrees, RandomForest
    from volta.methods.vim import KernelPca, Neco, Residual, Sirc, Vim
    from volta.methods.volta import Volta
    from volta.methods.volta_plus import VoltaPlus

__all__ = [
    "ABLATION",
    "METHODS",
    "Aps",
    "Auto",
    "Beta",
    "BoostedTrees",
    "Conformal",
    "Ctm",
    "DeltaMds",
    "Dice",
    "Dirichlet",
    "Energy",
    "Enn",
    "Ensemble",
    "EnsembleTemperature",
    "ExtraTrees",
    "Fdbd",
    "Gen",
    "GlobalMahalanobis",
    "Gmm",
    "Hyperbolic",
    "Isotonic",
    "KernelPca",
    "KlMatching",
    "Knn",
    "Laplace",
    "Linear",
    "Mahalanobis",
    "MaxLogit",
    "MaxlogitPnorm",
    "McDropout",
    "MdsPlus",
    "Method",
    "Nci",
    "Neco",
    "NnGuide",
    "Quadratic",
    "RadialMahalanobis",
    "RandomForest",
    "React",
    "RegisteredMethod",
    "Residual",
    "Rmds",
    "RmdsPlus",
    "Scale",
    "She",
    "Sirc",
    "Softmax",
    "Spline",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "Swag",
    "TaylorSensus",
    "Temperature",
    "VectorScaling",
    "VennAbers",
    "Vim",
    "Volta",
    "VoltaPlus",
    "Weiper",
    "find_method",
    "method_names",
    "name_of",
]


def __getattr__(name: str) -> Any:
    """Return a public name, loading every method with it."""
    if name in __all__:
        from volta.methods import registry

        return getattr(registry, name)
    raise AttributeError(f"module 'volta.methods' has no attribute {name!r}")
