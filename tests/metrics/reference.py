"""Slow definitions, written from the formulas, to test the fast ones against."""

import itertools
from fractions import Fraction

import numpy as np


def aurc_over_all_orders(uncertainty, correct):
    """Mean AURC over every order of the rows that is sorted by uncertainty."""
    groups = [
        [i for i, u in enumerate(uncertainty) if u == value] for value in sorted(set(np.asarray(uncertainty).tolist()))
    ]
    areas = []
    for order in itertools.product(*(itertools.permutations(group) for group in groups)):
        rows = [i for group in order for i in group]
        errors = 0
        area = 0.0
        for rank, row in enumerate(rows, start=1):
            errors += not correct[row]
            area += errors / rank
        areas.append(area / len(rows))
    return float(np.mean(areas))


def expected_errors(uncertainty, correct):
    """Exact expected number of errors among the i most certain rows, i = 1 … n, as fractions."""
    uncertainty, correct = np.asarray(uncertainty), np.asarray(correct)
    share = {}
    for value in set(uncertainty.tolist()):
        tied = uncertainty == value
        share[value] = Fraction(int(np.sum(~correct[tied])), int(np.sum(tied)))
    return list(itertools.accumulate(share[value] for value in sorted(uncertainty.tolist())))


def aurc(uncertainty, correct):
    errors = expected_errors(uncertainty, correct)
    return sum(e / i for i, e in enumerate(errors, start=1)) / len(errors)


def eaurc(uncertainty, correct):
    perfect = [0.0 if right else 1.0 + i for i, right in enumerate(correct)]
    return aurc(uncertainty, correct) - aurc(perfect, correct)


def risk_at_80(uncertainty, correct):
    errors = expected_errors(uncertainty, correct)
    rank = next(i for i in range(1, len(errors) + 1) if Fraction(i, len(errors)) >= Fraction(4, 5))
    return errors[rank - 1] / rank


def coverage_at_5(uncertainty, correct):
    errors = expected_errors(uncertainty, correct)
    fits = [i for i, e in enumerate(errors, start=1) if e / i <= Fraction(1, 20)]
    return Fraction(max(fits, default=0), len(errors))


def auroc(id_scores, ood_scores):
    wins = sum((o > i) + 0.5 * (o == i) for o in ood_scores for i in id_scores)
    return wins / (len(id_scores) * len(ood_scores))


def average_precision(negative, positive):
    """Step-wise average precision, highest scores first."""
    total, recall_before = 0.0, 0.0
    for threshold in sorted({*map(float, negative), *map(float, positive)}, reverse=True):
        hits = sum(p >= threshold for p in positive)
        false = sum(n >= threshold for n in negative)
        recall = hits / len(positive)
        if recall > recall_before:
            total += (recall - recall_before) * hits / (hits + false)
        recall_before = recall
    return total


def fpr95(negative, positive):
    """FPR at the highest threshold whose TPR is at least 0.95."""
    for threshold in sorted({*map(float, negative), *map(float, positive)}, reverse=True):
        if Fraction(sum(p >= threshold for p in positive), len(positive)) >= Fraction(95, 100):
            return sum(n >= threshold for n in negative) / len(negative)
    raise AssertionError("the lowest score catches all")


def in_bin(value, j, n_bins):
    lower, upper = j / n_bins, (j + 1) / n_bins
    return lower < value <= upper or (j == 0 and value == 0)


def gaps(probs, labels, n_bins=15):
    """(count, |accuracy − confidence|) of each non-empty equal-width bin."""
    top, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    result = []
    for j in range(n_bins):
        inside = np.array([in_bin(value, j, n_bins) for value in top])
        if inside.any():
            result.append((int(inside.sum()), abs(correct[inside].mean() - top[inside].mean())))
    return result


def ece(probs, labels):
    return sum(count * gap for count, gap in gaps(probs, labels)) / len(labels)


def mce(probs, labels):
    return max(gap for _, gap in gaps(probs, labels))


def ece_equal_mass(probs, labels):
    """Fifteen copies of every row make whole bins; tied rows take their mean correctness first."""
    top, correct = probs.max(axis=1), (probs.argmax(axis=1) == labels).astype(float)
    shared = np.array([correct[top == value].mean() for value in top])
    order = np.argsort(top)
    gap = np.repeat((shared - top)[order], 15).reshape(15, -1)
    return float(np.abs(gap.sum(axis=1)).sum()) / (15 * len(labels))


def class_bin_terms(probs, labels, n_bins=15):
    """For each class and non-empty bin: probabilities, hits (0/1), base rate of the class."""
    for k in range(probs.shape[1]):
        hit = (labels == k).astype(float)
        for j in range(n_bins):
            inside = np.array([in_bin(value, j, n_bins) for value in probs[:, k]])
            if inside.any():
                yield probs[inside, k], hit[inside], hit.mean()


def ece_classwise(probs, labels):
    total = sum(abs(p.sum() - y.sum()) for p, y, _ in class_bin_terms(probs, labels))
    return total / probs.size


def brier_decomposition(probs, labels):
    n = len(labels)
    reliability = resolution = residual = 0.0
    for p, y, base in class_bin_terms(probs, labels):
        reliability += len(p) * (p.mean() - y.mean()) ** 2 / n
        resolution += len(p) * (y.mean() - base) ** 2 / n
        residual += np.sum((p - p.mean()) ** 2 - 2 * (p - p.mean()) * (y - y.mean())) / n
    base = np.bincount(labels, minlength=probs.shape[1]) / n
    return reliability, resolution, float(np.sum(base * (1 - base))), residual


def conformal_quantile(scores, alpha_numerator, alpha_denominator):
    """Smallest score with at least (n + 1)(1 − α) scores up to it, or inf."""
    need = (len(scores) + 1) * (1 - Fraction(alpha_numerator, alpha_denominator))
    for value in sorted(scores):
        if sum(s <= value for s in scores) >= need:
            return value
    return float("inf")


def autc(id_scores, ood_scores):
    """Half the areas under the steps P(id ≥ t) and P(ood < t) over t in [0, 1], infinities as 1e300."""
    id_scores, ood_scores = (np.clip(values, -1e300, 1e300).tolist() for values in (id_scores, ood_scores))
    low, high = min(id_scores + ood_scores), max(id_scores + ood_scores)
    if low == high:
        return 0.5
    id_scores, ood_scores = ([(v - low) / (high - low) for v in values] for values in (id_scores, ood_scores))
    cuts = sorted({0.0, 1.0, *id_scores, *ood_scores})
    area = 0.0
    for left, right in itertools.pairwise(cuts):
        false_positive = np.mean([v >= right for v in id_scores])
        false_negative = np.mean([v < right for v in ood_scores])
        area += (right - left) * (false_positive + false_negative) / 2
    return area


def augrc(uncertainty, correct):
    """Trapezoids from (0, 0) over the exact expected errors, both axes as shares of the rows."""
    errors = [0, *expected_errors(uncertainty, correct)]
    n = len(correct)
    return sum(Fraction(before + after, 2) for before, after in itertools.pairwise(errors)) / (n * n)


def joined(id_scores, correct, ood_scores):
    """ID and OOD rows as one selection whose failures are wrong ID rows and all OOD rows."""
    return np.concatenate([id_scores, ood_scores]), np.concatenate([correct, np.zeros(len(ood_scores), dtype=bool)])


def oscr(id_scores, correct, ood_scores):
    """Area by trapezoids under (share of OOD rows accepted, share of ID rows accepted and right)."""
    points = [(0.0, 0.0)]
    for threshold in sorted({*map(float, id_scores), *map(float, ood_scores)}):
        accepted = np.mean(np.asarray(ood_scores) <= threshold)
        points.append((accepted, np.mean((np.asarray(id_scores) <= threshold) & correct)))
    return sum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in itertools.pairwise(points))


def ece_debiased(probs, labels):
    top, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    total = 0.0
    for j in range(15):
        inside = np.array([in_bin(value, j, 15) for value in top])
        if inside.sum() > 1:
            gap = correct[inside].mean() - top[inside].mean()
            total += inside.mean() * (gap**2 - correct[inside].var(ddof=1) / inside.sum())
    return max(0.0, total) ** 0.5


def smoothed_gap(confidence, correct, sigma, n_points=4000):
    """∫ |mean of K_σ(t, c) (correct − c)| dt by midpoints, the kernel's mirror images summed one by one."""
    t = (np.arange(n_points) + 0.5) / n_points
    total = np.zeros(n_points)
    for c, right in zip(confidence, correct, strict=True):
        for period in range(-8, 9):
            for image in (2 * period + c, 2 * period - c):
                # Further away the exponential is 0 in float64.
                if max(-image, image - 1) > 39 * sigma:
                    continue
                total += (right - c) * np.exp(-((t - image) ** 2) / (2 * sigma**2))
    return float(np.abs(total).mean()) / (len(confidence) * sigma * np.sqrt(2 * np.pi))


def smece(confidence, correct):
    """Bisection for the σ whose smoothed gap is σ."""
    low, high = 0.0, 1.0
    for _ in range(36):
        middle = (low + high) / 2
        low, high = (middle, high) if smoothed_gap(confidence, correct, middle) > middle else (low, middle)
    return low
