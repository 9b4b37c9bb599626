"""The table of methods: a line a method, under the name of its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from volta.core.errors import InputError
from volta.core.plugins import is_address, load_address, plugins
from volta.core.suggest import unknown_name
from volta.methods.ablation import ABLATION
from volta.methods.aps import Aps
from volta.methods.base import Method
from volta.methods.conformal import Conformal
from volta.methods.energy import Energy
from volta.methods.enn import Enn
from volta.methods.ensemble import Ensemble
from volta.methods.ensemble_temperature import EnsembleTemperature
from volta.methods.fdbd import Fdbd
from volta.methods.gen import Gen
from volta.methods.gmm import Gmm
from volta.methods.hyperbolic import Hyperbolic
from volta.methods.isotonic import Isotonic
from volta.methods.knn import Knn
from volta.methods.laplace import Laplace
from volta.methods.linear import Linear
from volta.methods.mahalanobis import Mahalanobis
from volta.methods.max_logit import MaxLogit
from volta.methods.maxlogit_pnorm import MaxlogitPnorm
from volta.methods.mc_dropout import McDropout
from volta.methods.mds_plus import MdsPlus
from volta.methods.naming import make_method, parse_name, title_of, write_name, written_parameters
from volta.methods.nci import Nci
from volta.methods.neco import Neco
from volta.methods.nnguide import NnGuide
from volta.methods.react import React
from volta.methods.rmds import Rmds
from volta.methods.rmds_plus import RmdsPlus
from volta.methods.scale import Scale
from volta.methods.sirc import Sirc
from volta.methods.softmax import Softmax
from volta.methods.structured_matrix_scaling import StructuredMatrixScaling
from volta.methods.structured_vector_scaling import StructuredVectorScaling
from volta.methods.swag import Swag
from volta.methods.taylor_sensus import TaylorSensus
from volta.methods.temperature import Temperature
from volta.methods.vector_scaling import VectorScaling
from volta.methods.vim import Vim
from volta.methods.volta import Volta
from volta.methods.volta_plus import VoltaPlus
from volta.methods.weiper import Weiper

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
    "gen": Gen,
    "maxlogit_pnorm": MaxlogitPnorm,
    "fdbd": Fdbd,
    "nci": Nci,
    "neco": Neco,
    "nnguide": NnGuide,
    "react": React,
    "scale": Scale,
    "weiper": Weiper,
    "mds_plus": MdsPlus,
    "rmds_plus": RmdsPlus,
    "sirc": Sirc,
    "structured_vector_scaling": StructuredVectorScaling,
    "structured_matrix_scaling": StructuredMatrixScaling,
    "ensemble_temperature": EnsembleTemperature,
    "isotonic": Isotonic,
}


def standard_methods() -> tuple[str, ...]:
    """Return the names of a run that asks for no others: VOLTA, the paper's baselines and the established extras.

    >>> "knn" in standard_methods(), "gen" in standard_methods()
    (True, False)
    """
    return tuple(name for name, method in METHODS.items() if method.standard)


@dataclass(frozen=True)
class RegisteredMethod:
    """A method as the benchmark knows it: its one ``name``, the ``method`` to run, its ``title`` and ``origin``."""

    name: str
    method: Method
    title: str
    origin: Literal["volta", "paper", "extra", "ablation"]


def find_method(name: str) -> RegisteredMethod:
    """Return what is known of a method by name, with a new, unfitted one as ``method``; or say which names there are.

    A name is one of ``METHODS``, of the ablation's rows, of an installed plug-in (entry point ``volta.methods``), or a
    class written ``package.module:Class``. Parameters may follow, and stand in the method's own name and title.

    >>> find_method("knn").method
    Knn(k=50)
    >>> found = find_method("knn(k=10)")
    >>> found.method, found.name, found.title
    (Knn(k=10), 'knn(k=10)', 'kNN (k = 10)')
    """
    base, parameters = parse_name(name)
    if base in ABLATION:
        if parameters:
            raise InputError(f"{name}: {base} is a row of the ablation, without parameters; pass volta(...)")
        row = ABLATION[base]
        return RegisteredMethod(base, Volta(**row.settings), row.title, "ablation")
    kind = _class_of(base)
    base = _base_of(kind) if is_address(base) else base
    method = make_method(kind, parameters, base)
    # A second VOLTA, with other parameters or from a plug-in, is compared like any method: one is ours.
    origin = method.origin if kind is METHODS.get(base) and not written_parameters(method) else "extra"
    return RegisteredMethod(write_name(base, method), method, title_of(method), origin)


def name_of(method: Method) -> str:
    """Return the name by which any process can make an equal method: of its class, with its parameters.

    >>> name_of(Knn(k=10))
    'knn(k=10)'
    """
    kind = type(method)
    if kind.__module__ == "__main__" or "." in kind.__qualname__:
        raise InputError(
            f"{kind.__qualname__} is defined in {kind.__module__}, where no other process can import it, and what it "
            "does cannot be part of a result's key; move it to the top of a .py file of its own and import it"
        )
    return write_name(_base_of(kind), method)


def method_names() -> tuple[str, ...]:
    """Return every name that :func:`find_method` knows: the package's methods, plug-ins, the ablation's rows."""
    return (*METHODS, *(name for name in plugins("volta.methods") if name not in METHODS), *ABLATION)


def _class_of(base: str) -> type[Method]:
    if base in METHODS:
        return METHODS[base]
    if base in plugins("volta.methods"):
        return _checked_class(plugins("volta.methods")[base].load(), base)
    if is_address(base):
        return _checked_class(load_address(base), base)
    raise unknown_name("method", base, method_names())


def _base_of(kind: type[Method]) -> str:
    """Return the one name of a class: as the package lists it, as a plug-in does, or its address."""
    address = f"{kind.__module__}:{kind.__qualname__}"
    listed = (name for name, known in METHODS.items() if known is kind)
    brought = (name for name, found in plugins("volta.methods").items() if found.entry.value == address)
    return next(listed, "") or next(brought, "") or address


def _checked_class(kind: Any, name: str) -> type[Method]:
    if not (isinstance(kind, type) and issubclass(kind, Method) and "__dataclass_fields__" in vars(kind)):
        raise InputError(f"{name!r} is no method; name a dataclass that extends volta.Method")
    return kind
