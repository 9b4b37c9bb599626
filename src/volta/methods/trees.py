"""Trees on features: gradient boosting and a random forest, kept as plain arrays."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count, check_fraction, check_number
from volta.core.types import Array, FitData, Prediction
from volta.methods import graphs
from volta.methods.base import Method, checked
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
    """T binary trees of M nodes in all: a row goes to the left child where its feature is at most the threshold.

    ``feature``, ``left``, ``right`` (M,) and ``threshold`` (M,): a leaf is its own child. ``value`` (M, C): what a leaf
    adds to C outputs; ``roots`` (T,); ``first`` (T,): the first output that a tree adds to; ``n_outputs``: how many
    outputs there are; ``depth``: of the deepest tree. Rows are compared in single precision, as scikit-learn does.
    """

    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Floats
    roots: NDArray[np.int32]
    first: NDArray[np.int32]
    n_outputs: int
    depth: int

    def sums(self, rows: Array) -> Floats:
        """Return (n, n_outputs): the sums of what the leaves of rows (n, d) add."""
        found = np.zeros((len(rows), self.n_outputs))
        for start in range(0, len(rows), _CHUNK_ROWS):
            chunk = np.ascontiguousarray(rows[start : start + _CHUNK_ROWS].astype(np.float32).T)
            values = self._values(chunk)
            for first in np.unique(self.first):
                of_trees = values[self.first == first].sum(axis=0)
                found[start : start + _CHUNK_ROWS, first : first + of_trees.shape[1]] += of_trees
        return found

    def _values(self, columns: NDArray[np.float32]) -> Floats:
        """Return (T, n, C) of rows given as columns (d, n)."""
        index = np.arange(columns.shape[1])
        node = np.repeat(self.roots[:, None], len(index), axis=1)
        for _ in range(self.depth):
            goes_left = columns[self.feature[node], index] <= self.threshold[node]
            node = np.where(goes_left, self.left[node], self.right[node])
        return np.asarray(self.value[node])

    def sums_of_tensors(self, rows: Tensor) -> Tensor:
        """Do as :meth:`sums` does, on tensors."""
        import torch

        feature, left, right = (torch.tensor(each.astype(np.int64)) for each in (self.feature, self.left, self.right))
        threshold, value = torch.tensor(self.threshold), torch.tensor(self.value)
        narrow = rows.float().double()
        roots = torch.tensor(self.roots.astype(np.int64))
        node = roots.unsqueeze(0) + torch.zeros_like(narrow[:, :1], dtype=torch.int64)
        for _ in range(self.depth):
            seen = narrow.gather(1, feature[node])
            node = torch.where(seen <= threshold[node], left[node], right[node])
        shares = torch.zeros(len(self.roots), self.value.shape[1], self.n_outputs, dtype=torch.float64)
        for tree, first in enumerate(self.first.tolist()):
            shares[tree, :, first : first + self.value.shape[1]] = torch.eye(self.value.shape[1], dtype=torch.float64)
        return value[node].flatten(1) @ shares.flatten(0, 1)


def trees_of(fitted: list[tuple[Any, int, Floats]], n_outputs: int) -> Trees:
    """Return scikit-learn's trees as arrays: each a ``tree_``, its first output, and the values (nodes, C) to add."""
    parts: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "value")}
    roots, n_nodes = [], 0
    for tree, _, values in fitted:
        own = np.arange(tree.node_count)
        leaf = tree.children_left < 0
        parts["feature"].append(np.where(leaf, 0, tree.feature))
        parts["threshold"].append(tree.threshold)
        parts["left"].append(np.where(leaf, own, tree.children_left) + n_nodes)
        parts["right"].append(np.where(leaf, own, tree.children_right) + n_nodes)
        parts["value"].append(values)
        roots.append(n_nodes)
        n_nodes += tree.node_count
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Trees(
        feature=joined["feature"].astype(np.int32),
        threshold=joined["threshold"].astype(np.float64),
        left=joined["left"].astype(np.int32),
        right=joined["right"].astype(np.int32),
        value=joined["value"].astype(np.float64),
        roots=np.array(roots, dtype=np.int32),
        first=np.array([first for _, first, _ in fitted], dtype=np.int32),
        n_outputs=n_outputs,
        depth=max(int(tree.max_depth) for tree, _, _ in fitted),
    )


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


@dataclass
class BoostedTrees(_TreeMethod):
    """p = softmax(β l), l_k = b_k + ν Σ_t f_tk(x): gradient boosting of regression trees on the features themselves.

    f_tk is the t-th tree of class k (of one class, for two), fitted to the gradient of the log loss; β is fitted on
    validation samples; u = entropy of p. Each tree sees at most 20,000 samples, drawn again for each.
    Reference: Friedman (2001), Greedy Function Approximation: A Gradient Boosting Machine; by scikit-learn's
    ``GradientBoostingClassifier``.

    Parameters
    ----------
    n_trees, learning_rate
        Trees of each class (fewer of more than 50 classes: at most 5,000 trees in all), and ν.
    max_leaves, min_leaf
        Leaves of a tree, and samples of a leaf.
    max_features
        Share of the columns that a split chooses from.
    """

    title = "Boosted trees"
    checks = checked(
        n_trees=check_count,
        learning_rate=check_number,
        max_leaves=check_count,
        min_leaf=check_count,
        max_features=check_fraction,
    )

    n_trees: int = 100
    learning_rate: float = 0.1
    max_leaves: int = 16
    min_leaf: int = 5
    max_features: float = 0.5

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
            subsample=min(1.0, 20_000 / len(train)),
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
        from sklearn.ensemble import RandomForestClassifier

        train = data.train
        present, numbers = np.unique(train.labels, return_inverse=True)
        model = RandomForestClassifier(
            n_estimators=self.n_trees,
            max_leaf_nodes=self.max_leaves,
            min_samples_leaf=self.min_leaf,
            max_samples=min(1.0, 50_000 / len(train)),
            random_state=seed,
        ).fit(train.inputs, numbers, train.weights)
        grown = []
        for tree in model.estimators_:
            shares = tree.tree_.value[:, 0, :]
            values = np.zeros((len(shares), data.n_classes))
            values[:, present] = shares / (shares.sum(axis=1, keepdims=True) * self.n_trees)
            grown.append((tree.tree_, 0, values))
        self.trees_ = trees_of(grown, data.n_classes)
        self.n_rows_ = len(train)

    def _logits(self, sums: Any) -> Any:
        n_classes = self.trees_.n_outputs
        shares = (self.n_rows_ * sums + 0.5) / (self.n_rows_ + 0.5 * n_classes)
        return np.log(shares) if isinstance(sums, np.ndarray) else shares.log()
