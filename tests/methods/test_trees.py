import numpy as np
import pytest
from sklearn.datasets import load_wine

from tests.methods.test_auto import data_of
from volta.methods import BoostedTrees, ExtraTrees, RandomForest
from volta.methods.saving import row_graph, write_onnx
from volta.methods.trees import trees_of
from volta.networks.trainer import Trainer


@pytest.fixture(scope="module")
def wine():
    rows, labels = load_wine(return_X_y=True)
    return data_of(rows, labels)


@pytest.mark.parametrize("method", [BoostedTrees(n_trees=10), RandomForest(n_trees=10), ExtraTrees(n_trees=10)])
def test_trees_as_arrays_give_what_scikit_learn_gives(method, wine):
    from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier

    data, test = wine
    fitted = method.fit(data, Trainer(seed=3))
    sums = fitted._logits(fitted.trees_.sums(test.inputs))
    if isinstance(method, RandomForest):
        kind = ExtraTreesClassifier if isinstance(method, ExtraTrees) else RandomForestClassifier
        model = kind(10, max_leaf_nodes=256, random_state=3).fit(data.train.inputs, data.train.labels)
        shares, n = model.predict_proba(test.inputs), len(data.train)
        np.testing.assert_allclose(np.exp(sums), (n * shares + 0.5) / (n + 1.5), rtol=1e-12)
        return
    settings = {"max_leaf_nodes": 8, "max_depth": None, "min_samples_leaf": 5, "max_features": 0.5, "subsample": 0.5}
    model = GradientBoostingClassifier(n_estimators=10, random_state=3, **settings)
    found = model.fit(data.train.inputs, data.train.labels).decision_function(test.inputs)
    np.testing.assert_allclose(sums, found, atol=1e-12)


def test_two_classes_and_a_class_without_training_samples():
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 3))
    data, test = data_of(rows, (rows[:, 0] > 0).astype(int), n_classes=3)
    for method in (BoostedTrees(n_trees=20), RandomForest(n_trees=20)):
        probs = method.fit(data, Trainer(seed=0)).predict(test.inputs).probs
        assert (probs.argmax(axis=1) == test.labels).mean() > 0.9
        assert 0 < probs[:, 2].max() < 0.05


@pytest.mark.parametrize("method", [BoostedTrees(n_trees=5), RandomForest(n_trees=5), ExtraTrees(n_trees=5)])
def test_the_formula_on_tensors(method, wine):
    import torch

    data, test = wine
    fitted = method.fit(data, Trainer(seed=0))
    found = row_graph(fitted)(torch.tensor(test.inputs))
    expected = fitted.predict(test.inputs)
    np.testing.assert_allclose(found.probs.numpy(), expected.probs, atol=1e-12)
    np.testing.assert_allclose(found.uncertainty.numpy(), expected.uncertainty, atol=1e-12)


def test_rows_at_a_threshold_go_as_they_do_in_scikit_learn():
    from sklearn.tree import DecisionTreeClassifier

    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(400, 3)).astype(np.float32), random.integers(2, size=400)
    tree = DecisionTreeClassifier(random_state=0).fit(rows, labels).tree_
    trees = trees_of([(tree, 0, tree.value[:, 0, :])], 2)
    inner = np.flatnonzero(tree.children_left >= 0)
    at = rows[: len(inner)].copy()
    for moved in (np.float32(-np.inf), np.float32(np.inf)):
        near = tree.threshold[inner].astype(np.float32)
        at[np.arange(len(inner)), tree.feature[inner]] = np.nextafter(near, moved)
        np.testing.assert_array_equal(trees.sums(at), tree.predict(at).reshape(-1, 2))
    at[np.arange(len(inner)), tree.feature[inner]] = near
    np.testing.assert_array_equal(trees.sums(at), tree.predict(at).reshape(-1, 2))


# Over two seconds: the exporter of PyTorch is slow.
def test_an_onnx_graph_has_one_node_for_all_trees(wine, tmp_path):
    import onnx
    import onnxruntime
    import torch

    data, test = wine
    fitted = BoostedTrees(n_trees=5).fit(data, Trainer(seed=0))
    names = ["probs", "uncertainty", "ood_score"]
    write_onnx(row_graph(fitted), {"inputs": torch.zeros(2, 13)}, names, tmp_path / "trees.onnx", {})
    assert [node.domain for node in onnx.load(tmp_path / "trees.onnx").graph.node].count("ai.onnx.ml") == 1
    rows = test.inputs.astype(np.float32)
    probs = onnxruntime.InferenceSession(tmp_path / "trees.onnx").run(["probs"], {"inputs": rows})[0]
    np.testing.assert_allclose(probs, fitted.predict(rows).probs, atol=1e-6)
