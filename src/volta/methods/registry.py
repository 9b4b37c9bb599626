"""The table of methods: a line a method, under the name of its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from volta.core.errors import InputError
from volta.methods.ablation import ABLATION
from volta.methods.aps import Aps
from volta.methods.base import Method
from volta.methods.conformal import Conformal
from volta.methods.energy import Energy
from volta.methods.enn import Enn
from volta.methods.ensemble import Ensemble
from volta.methods.gmm import Gmm
from volta.methods.hyperbolic import Hyperbolic
from volta.methods.knn import Knn
from volta.methods.laplace import Laplace
from volta.methods.linear import Linear
from volta.methods.mahalanobis import Mahalanobis
from volta.methods.max_logit import MaxLogit
from volta.methods.mc_dropout import McDropout
from volta.methods.rmds import Rmds
from volta.methods.softmax import Softmax
from volta.methods.swag import Swag
from volta.methods.taylor_sensus import TaylorSensus
from volta.methods.temperature import Temperature
from volta.methods.vector_scaling import VectorScaling
from volta.methods.vim import Vim
from volta.methods.volta import Volta
from volta.methods.volta_plus import VoltaPlus

METHODS: dict[str, type[Method]] = {
    "volta": Volta,
    "softmax": Softmax,
    "mc_dropout": McDropout,
    "swag": Swag,
    "gmm": Gmm,
    "temperature": Temperature,
    "energy": Energy,
    "mahalanobis": Mahalanobis,
    "hyperbolic": Hyperbolic,
    "enn": Enn,
    "taylor_sensus": TaylorSensus,
    "conformal": Conformal,
    "linear": Linear,
    "ensemble": Ensemble,
    "knn": Knn,
    "vim": Vim,
    "max_logit": MaxLogit,
    "laplace": Laplace,
    "rmds": Rmds,
    "vector_scaling": VectorScaling,
    "aps": Aps,
    "volta_plus": VoltaPlus,
}


@dataclass(frozen=True)
class RegisteredMethod:
    """A method as the benchmark knows it: what to run, what to call it, where it comes from."""

    method: Method
    title: str
    origin: Literal["volta", "paper", "extra", "ablation"]


def find_method(name: str) -> RegisteredMethod:
    """Return a new, unfitted method or ablation row by name, or say which names there are.

    >>> find_method("knn").method
    Knn(k=50)
    """
    if name in METHODS:
        method = METHODS[name]()
        return RegisteredMethod(method, method.title, method.origin)
    if name in ABLATION:
        row = ABLATION[name]
        return RegisteredMethod(Volta(**row.settings), row.title, "ablation")
    raise InputError(f"there is no method {name!r}; the methods are: {', '.join([*METHODS, *ABLATION])}")
