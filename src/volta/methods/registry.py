"""The table of methods, and how methods are named.

A name is all that processes and machines pass on: each makes the method from it. Parameters that have their default are
left out and the others stand in the order of the fields, so that equal methods have equal names.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

from volta.core.errors import InputError, unknown_name
from volta.core.plugins import is_address, load_address, plugins
from volta.methods.ablation import ABLATION
from volta.methods.auto import Auto
from volta.methods.base import Method, PostHoc
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
from volta.methods.enn import Enn, Epinet
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
from volta.methods.softmax import Gen, KlMatching, MaxLogit, MaxlogitPnorm, Softmax
from volta.methods.taylor_sensus import TaylorSensus
from volta.methods.trees import BoostedTrees, ExtraTrees, RandomForest
from volta.methods.vim import KernelPca, Neco, Residual, Sirc, Vim
from volta.methods.volta import Volta
from volta.methods.volta_plus import VoltaPlus

_LONGEST = 1000
_FORM = re.compile(r"\s*([\w.:-]+)\s*(?:\((.*)\))?\s*", flags=re.DOTALL)


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list; commas within parentheses and quotes belong to a name.

    >>> split_names("knn(k=10), volta(encoder='deep', margin=0.1),energy")
    ('knn(k=10)', "volta(encoder='deep', margin=0.1)", 'energy')
    """
    names, depth, quote, begun = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "()[]":
            depth += 1 if letter in "([" else -1
        elif letter == "," and depth == 0:
            names.append(text[begun:place])
            begun = place + 1
    return tuple(part.strip() for part in (*names, text[begun:]) if part.strip())


def parse_name(text: str) -> tuple[str, dict[str, Any]]:
    """Return what stands before the parentheses and the parameters within; a bare word is text.

    >>> parse_name("volta(encoder=deep, margin=0.1)")
    ('volta', {'encoder': 'deep', 'margin': 0.1})
    """
    # Names come out of files too; Python's parser has no limit of its own that ends in an error of one kind.
    if len(text) > _LONGEST:
        raise InputError(f"method {text[:40]!r}… has {len(text):,} letters; a name has {_LONGEST:,} at most")
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(f"method {text!r} cannot be read; write a name, or name(parameter=value, ...)")
    base, inside = form.group(1), form.group(2)
    if not inside or not inside.strip():
        return base, {}
    try:
        call = ast.parse(f"_({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError
        return base, {str(word.arg): _value(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"method {text!r} has parameters that cannot be read; write name=value with commas between, as in knn(k=10)"
        ) from None


def make_method(kind: type[Method], parameters: Mapping[str, Any], name: str) -> Method:
    """Return ``kind`` with ``parameters``, or say which of them it does not take."""
    known = {field.name: field for field in fields(kind) if field.init}  # type: ignore[arg-type]
    checked = {}
    for key, value in parameters.items():
        if key not in known:
            raise InputError(f"{name}: {unknown_name('parameter', key, known)}")
        checked[key] = _checked(value, known[key].default, f"{name}: {key}")
    try:
        method = kind(**checked)
    except TypeError as error:
        raise InputError(f"{name} cannot be made ({error}); it takes: {', '.join(known) or 'none'}") from error
    for key in known:
        if isinstance(value := getattr(method, key), float) and not math.isfinite(value):
            raise InputError(f"{name}: {key} is {value}, which no record can hold; pass a finite number, or None")
    try:
        method.check_parameters()
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return method


def written_parameters(method: Method) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, in the order of the fields."""
    return {
        field.name: value
        for field in fields(method)  # type: ignore[arg-type]
        if field.init and ((value := getattr(method, field.name)) != field.default or field.default is MISSING)
    }


def write_name(base: str, method: Method) -> str:
    """Return the one name of a method that goes by ``base``."""
    written = written_parameters(method)
    for key, value in written.items():
        try:
            same = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError):
            same = False
        if not same:
            raise InputError(
                f"{base}: {key} is a {type(value).__name__}, which cannot be part of a name; a benchmark's methods "
                "have parameters that are numbers, text, None or tuples of those"
            )
    inside = ", ".join(f"{key}={value!r}" for key, value in written.items())
    return f"{base}({inside})" if inside else base


def _value(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _checked(value: Any, default: Any, where: str) -> Any:
    """Return the value as its default's kind: a whole number for a float is one, a list for a tuple too."""
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    plain = (bool, int, float, str, tuple)
    if isinstance(default, plain) and value is not None and type(value) is not type(default):
        raise InputError(f"{where} is {value!r}; pass a {type(default).__name__}, as its default {default!r} is")
    return value


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
    "epinet": Epinet,
    "beta": Beta,
    "quadratic": Quadratic,
    "spline": Spline,
    "dirichlet": Dirichlet,
    "venn_abers": VennAbers,
    "radial_mahalanobis": RadialMahalanobis,
    "global_mahalanobis": GlobalMahalanobis,
    "delta_mds": DeltaMds,
    "residual": Residual,
    "kernel_pca": KernelPca,
    "dice": Dice,
    "she": She,
    "ctm": Ctm,
    "kl_matching": KlMatching,
    "boosted_trees": BoostedTrees,
    "extra_trees": ExtraTrees,
    "random_forest": RandomForest,
    "auto": Auto,
}


Needs = Literal["logits", "features", "last-layer", "training"]

_OF_LOGITS = (
    *("softmax", "temperature", "energy", "conformal", "max_logit", "vector_scaling", "aps", "gen", "maxlogit_pnorm"),
    *(
        "structured_vector_scaling",
        "structured_matrix_scaling",
        "ensemble_temperature",
        "isotonic",
        "beta",
        "quadratic",
    ),
    *("spline", "dirichlet", "venn_abers", "kl_matching"),
)
_OF_LAST_LAYER = ("vim", "fdbd", "nci", "react", "scale", "weiper", "residual", "dice")


def needs_of(name: str) -> Needs:
    """Return the least that one of ``METHODS`` works from, or ``training`` where it trains a network of its own.

    Each includes the former: a network's logits, its penultimate vectors, its last layer.

    >>> needs_of("gen"), needs_of("knn"), needs_of("vim"), needs_of("swag")
    ('logits', 'features', 'last-layer', 'training')
    """
    if not issubclass(METHODS[name], PostHoc):
        return "training"
    return "logits" if name in _OF_LOGITS else "last-layer" if name in _OF_LAST_LAYER else "features"


SUMMARIES = {
    "volta": "prototypes on the unit sphere and a learned temperature",
    "volta_plus": "a wide head on features, with a joined OOD score",
    "softmax": "largest softmax probability",
    "mc_dropout": "mean of ten passes with dropout",
    "swag": "mean over weights drawn around SGD's path",
    "gmm": "density of a Gaussian mixture on penultimate vectors",
    "temperature": "one temperature, fitted by validation NLL",
    "energy": "free energy of the logits",
    "mahalanobis": "distance to the nearest class mean",
    "hyperbolic": "prototypes in the Poincaré ball",
    "enn": "a network averaged over a learned index",
    "taylor_sensus": "cross-entropy with a penalty on the logits' variance",
    "conformal": "prediction sets by a threshold on probabilities",
    "linear": "logistic regression, solved to its optimum",
    "ensemble": "mean of five networks",
    "knn": "distance to the 50th nearest training vector",
    "vim": "residual outside the principal space, plus energy",
    "max_logit": "largest logit",
    "laplace": "a Gaussian over the last layer's weights",
    "rmds": "class distance less the distance to all data",
    "vector_scaling": "a scale and a bias for each class",
    "aps": "prediction sets by cumulated probability",
    "extra_trees": "class shares of trees whose splits are drawn at random",
    "random_forest": "class shares of trees, smoothed and tempered",
    "boosted_trees": "gradient boosting of regression trees",
    "auto": "methods of different kinds, joined in log space",
    "gen": "generalised entropy of the largest probabilities",
    "maxlogit_pnorm": "largest logit over the logits' p-norm",
    "fdbd": "distance to the decision boundaries",
    "nci": "nearness to the predicted class's weight, and norm",
    "neco": "share of the vector in the principal space",
    "nnguide": "energy weighted by similarity to training vectors",
    "react": "energy after large activations are cut",
    "scale": "energy after activations are rescaled",
    "weiper": "divergence of values from those of training data",
    "mds_plus": "Mahalanobis distance of unit vectors",
    "rmds_plus": "relative Mahalanobis distance of unit vectors",
    "sirc": "softmax confidence joined with a residual",
    "structured_vector_scaling": "vector scaling, regularised towards one temperature",
    "structured_matrix_scaling": "matrix scaling, regularised towards one temperature",
    "ensemble_temperature": "tempered, plain and uniform probabilities mixed",
    "isotonic": "a step function for each class",
    "epinet": "a small network of an index on the penultimate vectors",
    "beta": "a beta map for each class",
    "quadratic": "a quadratic map of the log-odds for each class",
    "spline": "a smoothing spline for each class",
    "dirichlet": "a full matrix on log-probabilities",
    "venn_abers": "two isotonic fits for each prediction",
    "radial_mahalanobis": "Mahalanobis distance with a fitted radial scale",
    "global_mahalanobis": "distance to the mean of all training vectors",
    "delta_mds": "distance to right less distance to wrong samples",
    "residual": "residual outside the principal space",
    "kernel_pca": "reconstruction error of a kernel PCA",
    "dice": "energy of the largest weight contributions",
    "she": "inner product with the class's stored pattern",
    "ctm": "cosine to the nearest class mean",
    "kl_matching": "divergence from the class's mean softmax",
}
"""What each of ``METHODS`` is, in a line of a list; :func:`summary_of` has one for all."""


def summary_of(name: str) -> str:
    """Return what one of ``METHODS`` is in a line: its entry of ``SUMMARIES``, or its formula.

    >>> summary_of("knn")
    'distance to the 50th nearest training vector'
    """
    return SUMMARIES.get(name) or (METHODS[name].__doc__ or "").strip().partition("\n")[0]


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
    written = ", ".join(f"{key} = {value}" for key, value in written_parameters(method).items())
    title = f"{method.title} ({written})" if written else method.title
    # A second VOLTA, with other parameters or from a plug-in, is compared like any method: one is ours.
    origin = method.origin if kind is METHODS.get(base) and not written else "extra"
    return RegisteredMethod(write_name(base, method), method, title, origin)


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
    """Return every name that :func:`find_method` knows: the package's methods, plug-ins, the ablation's rows.

    >>> "knn" in method_names(), "volta-full" in method_names()
    (True, True)
    """
    return (*METHODS, *(name for name in plugins("volta.methods") if name not in METHODS), *ABLATION)


def _class_of(base: str) -> type[Method]:
    if base in METHODS:
        return METHODS[base]
    if base in plugins("volta.methods"):
        return _checked_class(plugins("volta.methods")[base].load(), base)
    if is_address(base):
        return _checked_class(load_address(base), base)
    raise unknown_name("method", base, method_names(), "see: volta methods")


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
