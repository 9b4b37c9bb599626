"""A method's formula on torch tensors, from which ONNX graphs are made: float64 but for the network itself.

torch is imported where it is used, so that a method's file does not need it to be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


SMALLEST = 1e-37


class TensorOutputs(NamedTuple):
    """What a network gives for n rows: ``logits`` (n, K) and ``features``, the penultimate vectors (n, w); float64."""

    logits: Tensor
    features: Tensor


class TensorPrediction(NamedTuple):
    """What a method says of n rows, as :class:`volta.core.types.Prediction` does; float64."""

    probs: Tensor
    uncertainty: Tensor
    ood_score: Tensor


RowFormula: TypeAlias = "Callable[[Tensor, list[TensorOutputs]], TensorPrediction]"
"""From float32 rows (n, ...) and the outputs of the method's networks for them to the prediction."""


@runtime_checkable
class HasTensorFormula(Protocol):
    """A post-hoc method with its formula on a network's outputs as tensors."""

    def predict_tensors(self, outputs: TensorOutputs) -> TensorPrediction:
        """Do as ``predict_outputs`` does, on tensors."""


@runtime_checkable
class HasGraph(Protocol):
    """A method of its own networks that is deterministic at test time and says so by giving its graph."""

    def graph(self) -> MethodGraph:
        """Return the fitted method's networks and the formula on what they give."""


class MethodGraph(NamedTuple):
    """The networks that a method runs, in order, and its formula on the rows and what they give."""

    networks: list[Any]
    formula: RowFormula


def constant(values: NDArray[Any] | float) -> Tensor:
    """Return an array that the method learned as a tensor of the same type."""
    import torch

    return torch.tensor(np.asarray(values))


def softmax_at(logits: Tensor, beta: float) -> Tensor:
    """Return softmax(β l); a plain number would be written in single precision."""
    return (constant(np.array([beta])) * logits).softmax(dim=1)


def prediction(probs: Tensor, uncertainty: Tensor, ood_score: Tensor | None = None) -> TensorPrediction:
    """Return a prediction whose OOD score is its uncertainty unless another is given."""
    return TensorPrediction(probs, uncertainty, uncertainty if ood_score is None else ood_score)


def entropy(probs: Tensor) -> Tensor:
    """Return −Σ_k p_k log p_k of each row, with 0 log 0 = 0."""
    # Exporters write bounds as float32, in which the smallest float64 would be 0 and its logarithm infinite.
    logs = probs.clamp(min=SMALLEST).log()
    return (-(probs * logs).sum(dim=1)).clamp(min=0.0)


def mean_softmax(many_logits: list[Tensor]) -> Tensor:
    """Return the mean of softmax over several logits of the same rows."""
    total = many_logits[0].softmax(dim=1)
    for logits in many_logits[1:]:
        total = total + logits.softmax(dim=1)
    return total / len(many_logits)


def entropy_graph(networks: list[Any]) -> MethodGraph:
    """Return the graph of a method that gives the mean softmax of its networks and the entropy of that."""

    def formula(inputs: Tensor, outputs: list[TensorOutputs]) -> TensorPrediction:
        probs = mean_softmax([found.logits for found in outputs])
        return prediction(probs, entropy(probs))

    return MethodGraph(networks, formula)


def energy(logits: Tensor) -> Tensor:
    """Return the free energy −log Σ_k exp(l_k) of each row."""
    return -logits.logsumexp(dim=1)


def one_minus_max_softmax(logits: Tensor) -> Tensor:
    """Return the share of all classes but the largest, which is exact where it is small."""
    n_classes = logits.shape[1]
    shares = logits.softmax(dim=1).topk(n_classes).values
    others: Tensor = shares.split([1, n_classes - 1], dim=1)[1].sum(dim=1)  # type: ignore[no-untyped-call]
    return others


def mass_above(probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's probabilities in falling order and the mass before each of them, both (n, K)."""
    falling = probs.topk(probs.shape[1]).values
    return falling, falling.cumsum(dim=1) - falling


def mass_of_likelier(probs: Tensor) -> Tensor:
    """Return Σ_{j: p_j > p_k} p_j of each row and class k, in memory of n K² numbers."""
    likelier = probs.unsqueeze(1) > probs.unsqueeze(2)
    return (likelier * probs.unsqueeze(1)).sum(dim=2)


def adaptive_set(probs: Tensor, threshold: float) -> Tensor:
    """Return (n, K) membership of {k : Σ_{j: p_j > p_k} p_j ≤ q}, q = ``threshold``.

    The mass before a class in falling order never falls, so the set is all that is as likely as the last class whose
    mass before it is at most q; equal probabilities share the mass before the first of them.
    """
    falling, before = mass_above(probs)
    last = (before <= threshold).sum(dim=1, keepdim=True) - 1
    return probs >= falling.gather(1, last)


TREE_LEAVES = "TreeLeaves"
"""What trees are in a graph between its export and :func:`with_tree_ensembles`."""


def with_tree_ensembles(model: Any) -> Any:
    """Return an exported ONNX model in which trees are standard nodes, one for each `volta.methods.trees.Trees`.

    The exporter would unroll the walk level by level, and takes long over nodes with large attributes. A leaf adds its
    number, which is exact in single precision up to 2²⁴, to an output of its tree's own.
    """
    if all(node.op_type != TREE_LEAVES for node in model.graph.node):
        return model
    from onnx import TensorProto, helper, numpy_helper

    arrays = {each.name: each for each in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}

    def array_of(name: str) -> NDArray[Any]:
        while name not in arrays:
            name = makers[name].input[0]
        return np.asarray(numpy_helper.to_array(arrays[name]))

    nodes = []
    for node in model.graph.node:
        if node.op_type != TREE_LEAVES:
            nodes.append(node)
            continue
        (leaves,), sums = node.output, f"{node.output[0]}_as_sums"
        attributes = _ensemble(*map(array_of, node.input[1:]))
        made = helper.make_node("TreeEnsembleRegressor", node.input[:1], [sums], node.name, domain=TREES, **attributes)
        nodes += [made, helper.make_node("Cast", [sums], [leaves], f"{node.name}_cast", to=TensorProto.INT64)]
    used = {name for node in nodes for name in node.input}
    kept = [each for each in model.graph.initializer if each.name in used]
    versions = [each for each in model.opset_import if each.domain != "volta"]
    for field, values in (
        (model.graph.node, nodes),
        (model.graph.initializer, kept),
        (model.opset_import, [*versions, helper.make_opsetid(TREES, 2)]),
    ):
        del field[:]
        field.extend(values)
    return model


TREES = "ai.onnx.ml"


def _ensemble(
    feature: NDArray[Any], threshold: NDArray[Any], left: NDArray[Any], leaf: NDArray[Any], roots: NDArray[Any]
) -> dict[str, Any]:
    """Return the attributes of trees' node."""
    nodes = np.arange(len(feature))
    tree = np.searchsorted(roots, nodes, "right") - 1
    number, is_leaf = nodes - roots[tree], left == nodes
    below = np.where(is_leaf, 0, left - roots[tree])
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": number.tolist(),
        "nodes_featureids": feature.tolist(),
        "nodes_values": np.where(is_leaf, 0.0, threshold).tolist(),
        "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_truenodeids": below.tolist(),
        "nodes_falsenodeids": np.where(is_leaf, 0, below + 1).tolist(),
        "target_treeids": tree[is_leaf].tolist(),
        "target_nodeids": number[is_leaf].tolist(),
        "target_ids": tree[is_leaf].tolist(),
        "target_weights": leaf[is_leaf].astype(np.float64).tolist(),
        "n_targets": len(roots),
    }
