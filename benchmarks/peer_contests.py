"""Who does what we do: for each peer, the calls that fit and score the same thing from the same stored arrays.

Imported by ``peers.py``. Each function imports its peer itself and gives contests; a peer that is not installed is told
there. Peers get tensors or arrays in the type they work in, made before the clock starts.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

import mixture
import training
from volta.core.types import FitData, Prediction, Split
from volta.methods.base import PostHoc
from volta.methods.calibrated import Isotonic, Temperature, VectorScaling
from volta.methods.conformal import Aps, Conformal
from volta.methods.energy import Energy, React, Scale
from volta.methods.gmm import fit_mixture, spread_points
from volta.methods.knn import Knn, NnGuide
from volta.methods.laplace import Laplace
from volta.methods.last_layer import Fdbd, Nci
from volta.methods.linear import Linear
from volta.methods.mahalanobis import Mahalanobis, Rmds
from volta.methods.softmax import Gen, MaxLogit, Softmax
from volta.methods.vim import Vim
from volta.networks.outputs import LabelledOutputs, Outputs
from volta.networks.trainer import VISION_RECIPE, Trainer

N_CLASSES = 10
NEIGHBOUR_QUERIES = 2_000
LAPLACE_VAL, LAPLACE_TEST = 200, 500


@dataclass(frozen=True, eq=False)
class Case:
    """A network's outputs on stored features: four splits, and the linear head between features and logits."""

    train: LabelledOutputs
    val: LabelledOutputs
    cal: LabelledOutputs
    test: LabelledOutputs

    def head(self) -> torch.nn.Linear:
        """Return the last layer as a torch module."""
        layer = self.test.outputs.need_last_layer()
        head = torch.nn.Linear(layer.weight.shape[1], layer.weight.shape[0])
        with torch.no_grad():
            head.weight.copy_(torch.tensor(layer.weight))
            head.bias.copy_(torch.tensor(layer.bias))
        return head.requires_grad_(requires_grad=False)


@dataclass(frozen=True, eq=False)
class Contest:
    """Two calls that do the same work; both return what they computed, so that agreement can be looked at."""

    what: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object]


def stand_in_parts() -> None:
    """Let peers be imported without compiled parts that none of what is timed uses.

    torchvision's wheels want a CUDA build of torch for its box operators; torchcp imports torchsort for one loss,
    torch_geometric for graphs and transformers for language models.
    """
    sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")
    torchsort = types.ModuleType("torchsort")
    torchsort.soft_rank = torchsort.soft_sort = None  # type: ignore[attr-defined]
    sys.modules.setdefault("torchsort", torchsort)
    for name in ("torchcp.graph", "torchcp.llm"):
        sys.modules.setdefault(name, types.ModuleType(name))


def ours(method: PostHoc, case: Case, n_queries: int | None = None) -> Callable[[], Prediction]:
    """Return the call that fits a method of ours and predicts the test rows: probabilities and score."""
    test = _first(case.test.outputs, n_queries)

    def call() -> Prediction:
        return method.fit_from_outputs(train=case.train, val=case.val, cal=case.cal).predict_outputs(test)

    return call


def pytorch_ood(case: Case) -> Iterator[Contest]:
    """Detectors from features or logits; their side makes the softmax too, as our prediction has it."""
    from pytorch_ood import detector

    head, layer = case.head(), case.test.outputs.need_last_layer()
    weight, bias = torch.tensor(layer.weight), torch.tensor(layer.bias)
    train, train_labels = torch.tensor(case.train.outputs.features), torch.tensor(case.train.labels)
    val, val_labels = torch.tensor(case.val.outputs.logits).float(), torch.tensor(case.val.labels)
    features, logits = torch.tensor(case.test.outputs.features), torch.tensor(case.test.outputs.logits).float()

    def scored(score: Callable[[], torch.Tensor], n_rows: int | None = None) -> Callable[[], object]:
        return lambda: (logits[:n_rows].softmax(dim=1), score().detach())[1]

    def fitted(make: Callable[[], object], n_rows: int | None = None) -> Callable[[], object]:
        def score() -> torch.Tensor:
            scores: torch.Tensor = make().fit_features(train, train_labels).predict_features(features[:n_rows])  # type: ignore[attr-defined]
            return scores

        return scored(score, n_rows)

    few, maps, flat_head = NEIGHBOUR_QUERIES, features[:, :, None, None], torch.nn.Sequential(torch.nn.Flatten(), head)
    contests = {
        "softmax": (Softmax(), scored(lambda: detector.MaxSoftmax.score(logits)), None),
        "energy": (Energy(), scored(lambda: detector.EnergyBased.score(logits)), None),
        "max_logit": (MaxLogit(), scored(lambda: detector.MaxLogit.score(logits)), None),
        "gen": (Gen(), scored(lambda: detector.GEN.score(logits, M=100)), None),
        "mahalanobis": (Mahalanobis(), fitted(lambda: detector.Mahalanobis(None)), None),
        "rmds": (Rmds(), fitted(lambda: detector.RMD(None)), None),
        "vim": (Vim(), fitted(lambda: detector.ViM(None, features.shape[1] // 2, weight, bias)), None),
        "knn": (Knn(), fitted(lambda: detector.KNN(None, k=50), few), few),
        "fdbd": (Fdbd(), fitted(lambda: detector.fDBD(None, head)), None),
        "nci": (Nci(), fitted(lambda: detector.NCI(None, head, alpha=1e-3)), None),
        "nnguide": (NnGuide(), fitted(lambda: detector.NNGuide(None, head), few), few),
        "react": (
            React(),
            scored(
                lambda: detector.ReAct(None, head).fit_feature_maps(train, train_labels).predict_feature_maps(features)
            ),
            None,
        ),
        "scale": (Scale(), scored(lambda: detector.SCALE(None, flat_head, 0.85).predict_feature_maps(maps)), None),
        "temperature": (
            Temperature(),
            scored(lambda: detector.TemperatureScaling(None).fit_logits(val, val_labels).predict_logits(logits)),
            None,
        ),
    }
    for what, (method, theirs, n_queries) in contests.items():
        yield Contest(what, "pytorch-ood", ours(method, case, n_queries), theirs)


def faiss(case: Case) -> Iterator[Contest]:
    """The exact inner-product index; faiss returns all k neighbours, ours the k-th."""
    import faiss as library

    library.omp_set_num_threads(torch.get_num_threads())
    train, test = case.train.outputs.need_features(), case.test.outputs.need_features()[:NEIGHBOUR_QUERIES]

    def theirs() -> object:
        bank, queries = train.copy(), test.copy()
        library.normalize_L2(bank)
        library.normalize_L2(queries)
        index = library.IndexFlatIP(bank.shape[1])
        index.add(bank)
        return -index.search(queries, 50)[0][:, -1]

    yield Contest("knn", "faiss", ours(Knn(), case, NEIGHBOUR_QUERIES), theirs)


def netcal(case: Case) -> Iterator[Contest]:
    """Calibrators, from probabilities."""
    from netcal.binning import IsotonicRegression
    from netcal.scaling import LogisticCalibration, TemperatureScaling

    val, test = (_probs(split) for split in (case.val, case.test))
    labels = case.val.labels
    makers: dict[str, tuple[PostHoc, Callable[[], object]]] = {
        "temperature": (Temperature(), TemperatureScaling),
        "vector_scaling": (VectorScaling(), LogisticCalibration),
        "isotonic": (Isotonic(), IsotonicRegression),
    }
    for what, (method, make) in makers.items():

        def theirs(make: Callable[[], object] = make) -> object:
            return make().fit(val, labels).transform(test)  # type: ignore[attr-defined]

        yield Contest(what, "netcal", ours(method, case), theirs)


def mapie(case: Case) -> Iterator[Contest]:
    """Split conformal sets around a classifier that is fitted already."""
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Stored(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """Gives stored probabilities: rows are their own probabilities."""

        classes_ = np.arange(N_CLASSES)
        n_features_in_ = N_CLASSES

        def fit(self, probs: np.ndarray, labels: np.ndarray) -> Stored:
            return self

        def predict(self, probs: np.ndarray) -> np.ndarray:
            return np.asarray(probs).argmax(axis=1)

        def predict_proba(self, probs: np.ndarray) -> np.ndarray:
            return np.asarray(probs)

        def __sklearn_is_fitted__(self) -> bool:
            return True

    cal, test = (_probs(split) for split in (case.cal, case.test))
    for what, method, score in (("conformal", Conformal(), "lac"), ("aps", Aps(), "aps")):

        def theirs(score: str = score) -> object:
            classifier = SplitConformalClassifier(Stored(), confidence_level=0.9, conformity_score=score, prefit=True)
            return classifier.conformalize(cal, case.cal.labels).predict_set(test)[1]

        yield Contest(what, "MAPIE", ours(method, case), theirs)


def torchcp(case: Case) -> Iterator[Contest]:
    """Split conformal sets from logits."""
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import APS, LAC

    cal, test = (torch.tensor(split.outputs.logits).float() for split in (case.cal, case.test))
    labels = torch.tensor(case.cal.labels)
    for what, method, score in (("conformal", Conformal(), LAC), ("aps", Aps(), lambda: APS(randomized=False))):

        def theirs(score: Callable[[], object] = score) -> object:
            predictor = SplitPredictor(score(), alpha=0.1, device=torch.device("cpu"))
            predictor.calculate_threshold(cal, labels)
            return test.softmax(dim=1), predictor.predict_with_logits(test)

        yield Contest(what, "TorchCP", ours(method, case), theirs)


def laplace(case: Case) -> Iterator[Contest]:
    """The last layer's Kronecker-factored Laplace, prior precision by grid search on validation rows, probit link.

    Both sides validate on 200 and score 500 rows: the peer takes 3 to 6 ms a row for each of 33 prior precisions.
    """
    from laplace import Laplace as Peer

    case = replace(case, val=_few(case.val, LAPLACE_VAL), test=_few(case.test, LAPLACE_TEST))

    def loader(split: LabelledOutputs) -> torch.utils.data.DataLoader[tuple[torch.Tensor, ...]]:
        rows = torch.utils.data.TensorDataset(torch.tensor(split.outputs.features), torch.tensor(split.labels))
        return torch.utils.data.DataLoader(rows, batch_size=1024)

    train, val, test = loader(case.train), loader(case.val), torch.tensor(case.test.outputs.features)
    model = torch.nn.Sequential(torch.nn.Identity(), case.head().requires_grad_(requires_grad=True))

    def theirs() -> object:
        posterior = Peer(model, "classification", subset_of_weights="last_layer", hessian_structure="kron")
        posterior.fit(train)
        posterior.optimize_prior_precision(
            method="gridsearch", val_loader=val, pred_type="glm", link_approx="probit", grid_size=33
        )
        return posterior(test, pred_type="glm", link_approx="probit").detach()

    yield Contest("laplace", "laplace-torch", ours(Laplace(), case), theirs)


def scikit_learn(case: Case) -> Iterator[Contest]:
    """Neighbours, mixtures, isotonic maps and the logistic regression of scikit-learn."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression
    from sklearn.mixture import GaussianMixture
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler, normalize

    train, test = case.train.outputs.need_features(), case.test.outputs.need_features()
    few = test[:NEIGHBOUR_QUERIES]

    def neighbours() -> object:
        index = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(normalize(train))
        return index.kneighbors(normalize(few))[0][:, -1]

    yield Contest("knn", "scikit-learn", ours(Knn(), case, NEIGHBOUR_QUERIES), neighbours)
    clouds = mixture.clouds(10_000, 256)
    ridge = 1e-6 * float(clouds.var(axis=0).mean())

    def own_mixture() -> object:
        start = spread_points(clouds, N_CLASSES, np.random.default_rng(0))
        return -fit_mixture(clouds, start, max_iter=10, tol=0.0, ridge=ridge)[0].log_density(clouds)

    def peer_mixture() -> object:
        peer = GaussianMixture(
            N_CLASSES, max_iter=10, tol=0.0, reg_covar=ridge, init_params="k-means++", random_state=0
        )
        return -peer.fit(clouds.astype(np.float64)).score_samples(clouds)

    yield Contest("gmm, 10,000 × 256", "scikit-learn", own_mixture, peer_mixture)
    fit_data = FitData(
        *(Split(split.outputs.need_features(), split.labels) for split in (case.train, case.val, case.cal)),
        n_classes=N_CLASSES,
        encoder="vision",
    )

    def own_probe() -> object:
        return Linear(ridges=(1e-2,)).fit(fit_data, Trainer(seed=0)).predict(test)

    def peer_probe(tol: float, dtype: type[np.floating]) -> object:
        scaler = StandardScaler().fit(train)
        peer = LogisticRegression(C=1.0 / (1e-2 * len(train)), max_iter=1000, tol=tol).fit(
            scaler.transform(train).astype(dtype), case.train.labels
        )
        return peer.predict_proba(scaler.transform(test).astype(dtype))

    yield Contest("linear, one ridge", "scikit-learn", own_probe, lambda: peer_probe(1e-4, np.float32))
    # Ours is solved to the optimum in float64, which the peer's defaults are not.
    yield Contest("linear, to optimum", "scikit-learn", own_probe, lambda: peer_probe(1e-7, np.float64))
    base = GaussianNB().fit(train[:100], case.train.labels[:100])
    val_rows = case.val.outputs.need_features()

    def temperature() -> object:
        peer = CalibratedClassifierCV(FrozenEstimator(base), method="temperature").fit(val_rows, case.val.labels)
        return peer.predict_proba(test)

    own_val = LabelledOutputs(Outputs(np.log(base.predict_proba(val_rows) + 1e-30)), case.val.labels)

    def own_temperature() -> object:
        base.predict_proba(val_rows)
        return (
            Temperature()
            .fit_from_outputs(val=own_val)
            .predict_outputs(Outputs(np.log(base.predict_proba(test) + 1e-30)))
        )

    yield Contest("temperature", "scikit-learn", own_temperature, temperature)


def skorch(case: Case) -> Iterator[Contest]:
    """One epoch of the same network, widths, batch size and optimiser."""
    import skorch as library

    rows, labels = case.train.outputs.need_features(), case.train.labels
    split, few = Split(rows, labels), Split(rows[:16], labels[:16])
    data = FitData(split, few, few, n_classes=N_CLASSES, encoder="vision")

    def theirs() -> object:
        return library.NeuralNetClassifier(
            training.PlainVolta,
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.AdamW,
            lr=2e-3,
            max_epochs=2,
            batch_size=VISION_RECIPE.batch_size,
            iterator_train__shuffle=True,
            train_split=None,
            verbose=0,
        ).fit(rows, labels)

    yield Contest("volta, two epochs", "skorch", lambda: training.volta_epochs(data, 2), theirs)


PEERS: dict[str, Callable[[Case], Iterator[Contest]]] = {
    "pytorch-ood": pytorch_ood,
    "faiss-cpu": faiss,
    "netcal": netcal,
    "mapie": mapie,
    "torchcp": torchcp,
    "laplace-torch": laplace,
    "scikit-learn": scikit_learn,
    "skorch": skorch,
}


def _few(split: LabelledOutputs, n_rows: int) -> LabelledOutputs:
    return LabelledOutputs(_first(split.outputs, n_rows), split.labels[:n_rows])


def _first(outputs: Outputs, n_rows: int | None) -> Outputs:
    return Outputs(outputs.logits[:n_rows], outputs.need_features()[:n_rows], outputs.last_layer)


def _probs(split: LabelledOutputs) -> np.ndarray:
    return Softmax().fit_from_outputs().predict_outputs(split.outputs).probs
