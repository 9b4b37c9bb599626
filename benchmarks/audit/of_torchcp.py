"""TorchCP's sets, from log probabilities of naive Bayes."""

from __future__ import annotations

import numpy as np


def sets(X, y, seed, score="LAC", predictor="SplitPredictor"):
    import sys
    import types

    import torch
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    # Imported by torchcp for a loss, for graphs and for language models, and not used here.
    for name in ("torchsort", "torchcp.graph", "torchcp.llm", "torchvision._meta_registrations"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["torchsort"].soft_rank = sys.modules["torchsort"].soft_sort = None
    from torchcp.classification import predictor as predictors
    from torchcp.classification import score as scores

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.5, random_state=seed)
    model = GaussianNB().fit(X_fit, y_fit)
    if set(y_cal) - set(model.classes_):
        raise ValueError("a class of the calibration rows was not trained")
    parameters = {"RAPS": {"penalty": 0.01, "kreg": 1}, "SAPS": {"weight": 0.1}}.get(score, {})
    method = getattr(predictors, predictor)(getattr(scores, score)(**parameters), alpha=0.1)

    def logits(rows):
        return torch.tensor(model.predict_log_proba(rows), dtype=torch.float32)

    method.calculate_threshold(logits(X_cal), torch.tensor(np.searchsorted(model.classes_, y_cal)))

    def rule(X_new):
        full = np.zeros((len(X_new), len(np.unique(y))), dtype=bool)
        members = method.predict_with_logits(logits(X_new)).numpy().astype(bool)
        full[:, np.searchsorted(np.unique(y), model.classes_)] = members
        return full

    return rule


def lac(X, y, seed):
    return sets(X, y, seed)


def aps(X, y, seed):
    return sets(X, y, seed, "APS")


def raps(X, y, seed):
    return sets(X, y, seed, "RAPS")


def saps(X, y, seed):
    return sets(X, y, seed, "SAPS")


def top_k(X, y, seed):
    return sets(X, y, seed, "TOPK")


def margin(X, y, seed):
    return sets(X, y, seed, "Margin")


def class_conditional(X, y, seed):
    return sets(X, y, seed, "LAC", "ClassConditionalPredictor")


CASES = (
    ("SplitPredictor, LAC", lac, "coverage", 0.9, None),
    ("SplitPredictor, APS", aps, "coverage", 0.9, None),
    ("SplitPredictor, RAPS", raps, "coverage", 0.9, None),
    ("SplitPredictor, SAPS", saps, "coverage", 0.9, None),
    ("SplitPredictor, TOPK", top_k, "coverage", 0.9, None),
    ("SplitPredictor, Margin", margin, "coverage", 0.9, None),
    ("ClassConditionalPredictor, LAC", class_conditional, "class_coverage", 0.9, None),
)
