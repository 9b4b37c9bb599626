"""Trees on features: gradient boosting and a random forest, kept as plain arrays."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count, check_number
from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Check, Method, checked
from volta.methods.scores import Floats, entropy, softmax
from volta.methods.temperature import fit_temperature, half_a_row
from volta.networks.trainer import Trainer, need_features

if TYPE_CHECKING:
    from torch import Tensor

_CHUNK_ROWS = 1024
MOST_TREES, FEWEST_STAGES = 5000, 10
"""Of many classes fewer stages are boosted, so that there are no more trees than this."""


@dataclass(frozen=True, eq=False)
class Trees:
    """T binary trees of M nodes and L leaves in all: a row goes left where its feature is at most the threshold.

    ``feature``, ``threshold`` and ``left`` (M,): a node's right child follows its left one; a leaf is its own left
    child, with an infinite threshold. ``leaf`` (M,): the number of a leaf, 0 for other nodes; ``value`` (L, C): what it
    adds to C outputs; ``roots`` (T,); ``first`` (T,), never falling: the first output that a tree adds to;
    ``n_outputs``: how many outputs there are; ``depth``: of the deepest tree. Rows and thresholds are compared in
    single precision.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    leaf: NDArray[np.int32]
    value: Floats
    roots: NDArray[np.int32]
    first: NDArray[np.int32]
    n_outputs: int
    depth: int

    def sums(self, rows: Array) -> Floats:
        """Return (n, n_outputs): the sums of what the leaves of rows (n, d) add."""
        found = np.zeros((len(rows), self.n_outputs))
        firsts, starts = np.unique(self.first, return_index=True)
        for start in range(0, len(rows), _CHUNK_ROWS):
            values = self.value[self._leaves(rows[start : start + _CHUNK_ROWS])]
            for first, of_trees in zip(firsts.tolist(), np.split(values, starts[1:]), strict=True):
                found[start : start + _CHUNK_ROWS, first : first + values.shape[2]] += of_trees.sum(axis=0)
        return found

    def _leaves(self, rows: Array) -> NDArray[np.int32]:
        """Return (T, n): in which leaves rows (n, d) end."""
        cells, n_columns = np.ravel(rows.astype(np.float32)), rows.shape[1]
        node = np.repeat(self.roots[:, None].astype(np.intp), len(rows), axis=1)
        first_cell = np.arange(len(rows)) * n_columns
        for _ in range(self.depth):
            goes_right = cells.take(first_cell + self.feature.take(node)) > self.threshold.take(node)
            node = self.left.take(node) + goes_right
        return self.leaf.take(node)

    def sums_of_tensors(self, rows: Tensor) -> Tensor:
        """Do as :meth:`sums` does, on tensors."""
        import torch

        values = torch.tensor(self.value)[self._leaves_of_tensors(rows.float())]
        firsts, starts = np.unique(self.first, return_index=True)
        sizes = np.diff([*starts.tolist(), len(self.first)]).tolist()
        sums = [of_trees.sum(dim=1) for of_trees in values.split(sizes, dim=1)]  # type: ignore[no-untyped-call]
        if len(sums) == self.n_outputs:
            return torch.cat(sums, dim=1)
        n_after = self.n_outputs - values.shape[2]
        padded = [
            torch.nn.functional.pad(each, (k, n_after - k)) for k, each in zip(firsts.tolist(), sums, strict=True)
        ]
        return torch.stack(padded).sum(dim=0)

    def _leaves_of_tensors(self, rows: Tensor) -> Tensor:
        """Return (n, T), in an ONNX graph by one node; see `volta.methods.graphs.with_tree_ensembles`."""
        import torch

        parts = (self.feature, self.threshold, self.left, self.leaf, self.roots)
        feature, threshold, left, leaf, roots = map(torch.tensor, parts)
        if torch.onnx.is_in_onnx_export() and hasattr(torch.onnx, "ops"):
            shape, given = (rows.shape[0], len(self.roots)), [rows, feature, threshold, left, leaf, roots]
            return torch.onnx.ops.symbolic(f"volta::{graphs.TREE_LEAVES}", given, dtype=torch.int64, shape=shape)
        node = roots.long().unsqueeze(0) + torch.zeros_like(rows[:, :1], dtype=torch.int64)
        for _ in range(self.depth):
            node = left[node] + (rows.gather(1, feature[node].long()) > threshold[node]).long()
        return leaf[node].long()


def trees_of(fitted: list[tuple[Any, int, Floats]], n_outputs: int) -> Trees:
    """Return scikit-learn's trees as arrays: each a ``tree_``, its first output, and the values (nodes, C) to add."""
    fitted = sorted(fitted, key=lambda each: each[1])
    sizes = [tree.node_count for tree, _, _ in fitted]
    roots = np.cumsum([0, *sizes[:-1]])
    n_nodes = sum(sizes)
    feature, threshold = np.zeros(n_nodes, dtype=np.int32), np.full(n_nodes, np.inf, dtype=np.float32)
    left, is_leaf = np.arange(n_nodes, dtype=np.int32), np.ones(n_nodes, dtype=np.bool_)
    values = np.empty((n_nodes, fitted[0][2].shape[1]))
    for root, (tree, _, own_values) in zip(roots.tolist(), fitted, strict=True):
        parents = np.flatnonzero(tree.children_left >= 0)
        # Children of the i-th parent get the places 1 + 2i and 2 + 2i.
        place = np.full(tree.node_count, root)
        place[tree.children_left[parents]] += 1 + 2 * np.arange(len(parents))
        place[tree.children_right[parents]] += 2 + 2 * np.arange(len(parents))
        feature[place[parents]] = tree.feature[parents]
        threshold[place[parents]] = _rounded_down(tree.threshold[parents])
        left[place[parents]] = place[tree.children_left[parents]]
        is_leaf[place[parents]] = False
        values[place] = own_values
    return Trees(
        feature=feature,
        threshold=threshold,
        left=left,
        leaf=np.where(is_leaf, np.cumsum(is_leaf) - 1, 0).astype(np.int32),
        value=values[is_leaf],
        roots=roots.astype(np.int32),
        first=np.array([first for _, first, _ in fitted], dtype=np.int32),
        n_outputs=n_outputs,
        depth=max(int(tree.max_depth) for tree, _, _ in fitted),
    )


def _rounded_down(values: Floats) -> NDArray[np.float32]:
    """Return the largest numbers of single precision that are no larger: rows of it are parted as by ``values``."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)


@dataclass
class _TreeMethod(Method):
    """A method of ``trees_``: logits of their sums, cooled by one temperature."""

    origin = "extra"
    paper_inputs = "features"
    standard = False
    learned_types = (Trees,)

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        need_features(data)
        self._grow(data, trainer.seed % (2**31))
        logits = self._logits(self.trees_.sums(data.val.inputs))
        doubt = half_a_row(len(data.val))
        self.beta_ = fit_temperature(logits, data.val.labels, weights=data.val.weights, doubt=doubt)

    @abstractmethod
    def _grow(self, data: FitData, seed: int) -> None:
        """Learn ``trees_``."""

    def _logits(self, sums: Any) -> Any:
        """Return logits of the trees' sums (n, K), arrays or tensors."""
        return sums

    def _predict(self, inputs: Array) -> Prediction:
        probs = softmax(self._logits(self.trees_.sums(inputs)), self.beta_)
        return Prediction(probs, entropy(probs))

    def graph(self) -> graphs.MethodGraph:
        """Return the formula on the rows, for ONNX graphs; there is no network."""

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            probs = graphs.softmax_at(self._logits(self.trees_.sums_of_tensors(inputs)), self.beta_)
            return graphs.prediction(probs, graphs.entropy(probs))

        return graphs.MethodGraph([], formula)


_check_share: Check = partial(check_number, below=1.0 + 1e-9)


@dataclass
class BoostedTrees(_TreeMethod):
    """p = softmax(β l), l_k = b_k + ν Σ_t f_tk(x): gradient boosting of regression trees on the features themselves.

    f_tk is the t-th tree of class k (of one class, for two), fitted to the gradient of the log loss; β is fitted on
    validation samples; u = entropy of p.
    Reference: Friedman (2001), Greedy Function Approximation: A Gradient Boosting Machine, and (2002), Stochastic
    Gradient Boosting; by scikit-learn's ``GradientBoostingClassifier``.

    Parameters
    ----------
    n_trees, learning_rate
        Trees of each class (fewer of more than 50 classes: at most 5,000 trees in all), and ν.
    max_leaves, min_leaf
        Leaves of a tree, and samples of a leaf.
    max_features
        Share of the columns that a split chooses from.
    max_samples
        Share of the samples that a tree sees, drawn again for each; at most 20,000 are drawn.
    """

    title = "Boosted trees"
    checks = checked(
        n_trees=check_count,
        learning_rate=check_number,
        max_leaves=check_count,
        min_leaf=check_count,
        max_features=_check_share,
        max_samples=_check_share,
    )

    n_trees: int = 100
    learning_rate: float = 0.1
    max_leaves: int = 8
    min_leaf: int = 5
    max_features: float = 0.5
    max_samples: float = 0.5

    def _grow(self, data: FitData, seed: int) -> None:
        from sklearn.ensemble import GradientBoostingClassifier

        train = data.train
        present, numbers = np.unique(train.labels, return_inverse=True)
        model = GradientBoostingClassifier(
            n_estimators=min(self.n_trees, max(FEWEST_STAGES, MOST_TREES // len(present))),
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaves,
            max_depth=None,
            min_samples_leaf=min(self.min_leaf, max(1, len(train) // 10)),
            max_features=self.max_features,
            subsample=min(self.max_samples, 20_000 / len(train)),
            random_state=seed,
        ).fit(train.inputs, numbers, train.weights)
        # One tree a stage stands for two classes.
        classes = present if len(present) > 2 else present[1:]
        grown = [
            (tree.tree_, int(label), self.learning_rate * tree.tree_.value[:, :, 0])
            for stage in model.estimators_
            for tree, label in zip(stage, classes, strict=True)
        ]
        self.trees_ = trees_of(grown, data.n_classes)
        start = (
            np.reshape(model.decision_function(train.inputs[:1]), -1) - self.trees_.sums(train.inputs[:1])[0, classes]
        )
        # A class that no training sample has is as unlikely as a sample that was not seen.
        self.start_ = np.full(data.n_classes, float(np.log(0.5 / len(train))))
        self.start_[present] = 0.0
        self.start_[classes] = start

    def _logits(self, sums: Any) -> Any:
        return sums + (self.start_ if isinstance(sums, np.ndarray) else graphs.constant(self.start_))


@dataclass
class RandomForest(_TreeMethod):
    """p = softmax(β log q), q = (n p̄ + 1/2) / (n + K/2), p̄ the mean of the trees' class shares; u = entropy of p.

    n training samples, K classes; β is fitted on validation samples.
    Reference: Breiman (2001), Random Forests; by scikit-learn's ``RandomForestClassifier``.

    Parameters
    ----------
    n_trees
        T.
    max_leaves, min_leaf
        Leaves of a tree, and samples of a leaf.
    """

    title = "Random forest"
    checks = checked(n_trees=check_count, max_leaves=check_count, min_leaf=check_count)

    n_trees: int = 100
    max_leaves: int = 256
    min_leaf: int = 1

    def _grow(self, data: FitData, seed: int) -> None:
        train = data.train
        present, numbers = np.unique(train.labels, return_inverse=True)
        model = self._forest(len(train), seed).fit(train.inputs, numbers, train.weights)
        grown = []
        for tree in model.estimators_:
            shares = tree.tree_.value[:, 0, :]
            values = np.zeros((len(shares), data.n_classes))
            values[:, present] = shares / (shares.sum(axis=1, keepdims=True) * self.n_trees)
            grown.append((tree.tree_, 0, values))
        self.trees_ = trees_of(grown, data.n_classes)
        self.n_rows_ = len(train)

    def _forest(self, n_rows: int, seed: int) -> Any:
        """Return scikit-learn's forest, unfitted."""
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(**self._settings(seed), max_samples=min(1.0, 50_000 / n_rows))

    def _settings(self, seed: int) -> dict[str, Any]:
        limits = {"max_leaf_nodes": self.max_leaves, "min_samples_leaf": self.min_leaf}
        return {"n_estimators": self.n_trees, "random_state": seed, **limits}

    def _logits(self, sums: Any) -> Any:
        n_classes = self.trees_.n_outputs
        shares = (self.n_rows_ * sums + 0.5) / (self.n_rows_ + 0.5 * n_classes)
        return np.log(shares) if isinstance(sums, np.ndarray) else shares.log()


@dataclass
class ExtraTrees(RandomForest):
    """The form of :class:`RandomForest` with trees whose splits are drawn at random, on all samples.

    Of each column that a split may be on one threshold is drawn, and the best of these is taken.
    Reference: Geurts, Ernst and Wehenkel (2006), Extremely Randomized Trees; by scikit-learn's
    ``ExtraTreesClassifier``.
    """

    title = "Extra trees"

    def _forest(self, n_rows: int, seed: int) -> Any:
        from sklearn.ensemble import ExtraTreesClassifier

        share = {"bootstrap": True, "max_samples": 50_000 / n_rows} if n_rows > 50_000 else {}
        return ExtraTreesClassifier(**self._settings(seed), **share)
