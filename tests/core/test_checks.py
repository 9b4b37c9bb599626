import numpy as np
import pytest
import torch

from volta.core import checks
from volta.core.errors import InputError


def float32_softmax(n_samples, n_classes, seed=0):
    logits = 5 * np.random.default_rng(seed).standard_normal((n_samples, n_classes)).astype(np.float32)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 10, 1000, 20_000])
def test_float32_softmax_passes_uncopied(n_classes):
    probs = float32_softmax(200, n_classes)
    assert checks.check_probs(probs) is probs


def test_half_precision_and_integers_pass():
    checks.check_probs(float32_softmax(100, 100).astype(np.float16))
    assert checks.check_probs([[1, 0], [0, 1]]).dtype == np.float64
    assert checks.check_probs(np.array([[0.5, 0.5]], dtype=np.longdouble)).dtype == np.float64


def test_tolerance_follows_the_dtype():
    assert checks.sum_tolerance(np.dtype(np.float64), 1000) == 1e-6
    assert 1e-4 < checks.sum_tolerance(np.dtype(np.float32), 1000) < 2e-4
    assert checks.sum_tolerance(np.dtype(np.float16), 1000) == 1e-2
    checks.check_probs([[0.5, 0.5 + 9e-7]])
    with pytest.raises(InputError, match="divide each row by its sum"):
        checks.check_probs([[0.5, 0.5 + 2e-6]])


BAD_PROBS = [
    (
        [[0.5, 0.5], [0.9, 0.8]],
        r"probs row 1 sums to 1\.7 \(allowed: 1 ± 1e-06\); pass probabilities, not logits",
    ),
    ([[0.5, 0.5], [-0.5, 1.5]], r"probs row 1 holds -0\.5 in column 0; pass probabilities, not logits"),
    ([[0.5, np.nan], [0.9, 0.8]], r"probs row 0 holds NaN in column 1"),
    ([[np.inf, 0.0]], r"probs row 0 sums to inf"),
    ([[-np.inf, 1.0]], r"probs row 0 holds -inf in column 0"),
    ([0.5, 0.5], r"probs has shape \(2,\).*np\.column_stack\(\[1 - p, p\]\)"),
    (np.empty((0, 3)), r"probs is empty, shape \(0, 3\)"),
    (np.empty((3, 0)), r"probs is empty, shape \(3, 0\)"),
    ([["a", "b"]], r"probs has dtype <U1; pass real numbers"),
    ([[1j, 0]], r"probs has dtype complex128"),
    ([[0.5, 0.5], [1.0]], r"probs is not a rectangular array"),
]


@pytest.mark.parametrize(("probs", "message"), BAD_PROBS)
def test_rejects_probs(probs, message):
    with pytest.raises(InputError, match=message):
        checks.check_probs(probs)


def test_names_the_first_bad_row_across_chunks():
    n_rows = 3 * checks.CHUNK_ELEMENTS // 2
    probs = np.full((n_rows, 2), 0.5)
    probs[n_rows - 5] = np.nan
    probs[n_rows - 9] = 2.0
    with pytest.raises(InputError, match=f"cal_probs row {n_rows - 9} sums to 4"):
        checks.check_probs(probs, "cal_probs")


def test_labels():
    assert checks.check_labels(np.array([0, 2], dtype=np.uint8), 3).dtype == np.intp
    assert checks.check_labels([True, False], 2).tolist() == [1, 0]
    for labels, message in (
        ([0, 3], "labels row 1 is 3; with 3 classes they run from 0 to 2"),
        ([-1, 0], "labels row 0 is -1"),
        ([0.0, 1.0], r"labels has dtype float64; pass integer class indices \(labels.astype\(int\)\)"),
        ([True, False], "labels has dtype bool"),
        ([[0], [1]], r"labels has shape \(2, 1\)"),
        ([], "labels is empty"),
        (np.array([2**63], dtype=np.uint64), "labels row 0 is 9223372036854775808"),
    ):
        with pytest.raises(InputError, match=message):
            checks.check_labels(labels, 3)


def test_scores_allow_infinities_but_not_nan():
    assert checks.check_scores([np.inf, -np.inf, 3], "u").tolist() == [np.inf, -np.inf, 3.0]
    with pytest.raises(InputError, match="u row 1 is NaN"):
        checks.check_scores([0.0, np.nan], "u")
    with pytest.raises(InputError, match="u has dtype bool"):
        checks.check_scores([True, False], "u")


def test_correct_and_sets():
    assert checks.check_correct([1, 0]).tolist() == [True, False]
    with pytest.raises(InputError, match="correct has dtype float64; pass predicted == labels"):
        checks.check_correct([1.0, 0.0])
    with pytest.raises(InputError, match=r"correct has shape \(1, 1\)"):
        checks.check_correct([[True]])
    with pytest.raises(InputError, match="correct is empty"):
        checks.check_correct([])
    with pytest.raises(InputError, match="sets row 1 holds a value other than 0 and 1"):
        checks.check_sets([[0, 1], [0, 7]])
    with pytest.raises(InputError, match="sets is empty"):
        checks.check_sets(np.empty((0, 3), dtype=bool))


@pytest.mark.parametrize("shape", [(100, 7), (30, 3, 8, 8)])
def test_features_name_the_first_bad_row(shape):
    features = np.zeros(shape, dtype=np.float32)
    assert checks.check_features(features) is features
    features[20].flat[3] = np.inf
    features[25].flat[0] = np.nan
    where = " in column 3" if len(shape) == 2 else ""
    with pytest.raises(InputError, match=f"features row 20 holds inf{where}; impute it or drop the row"):
        checks.check_features(features)


def test_features_of_other_kinds():
    assert checks.check_features(np.zeros((2, 3), dtype=np.uint8)).dtype == np.uint8
    for features, message in (
        (np.zeros(3), r"features has shape \(3,\); expected \(n_samples, n_features\)"),
        (np.zeros((2, 3, 4)), r"features has shape \(2, 3, 4\)"),
        (np.zeros((0, 3)), "features is empty"),
        (np.array([["a"]]), "features has dtype <U1"),
        (np.zeros((2, 2), dtype=bool), "features has dtype bool"),
    ):
        with pytest.raises(InputError, match=message):
            checks.check_features(features)


def test_memory_mapped_features_are_read_in_chunks(tmp_path):
    path = tmp_path / "features.npy"
    written = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(5000, 100))
    written[4321, 50] = np.nan
    written.flush()
    mapped = np.load(path, mmap_mode="r")
    with pytest.raises(InputError, match="train row 4321 holds nan"):
        checks.check_features(mapped, "train")
    assert np.shares_memory(checks.check_features(mapped[:4321]), mapped)


def test_lengths_fractions_counts():
    assert checks.check_same_length(a=[1, 2], b=(3, 4), c=np.zeros((2, 9))) == 2
    with pytest.raises(InputError, match="c has 3 rows but a has 2; pass one entry of c for each row of a"):
        checks.check_same_length(a=[1, 2], b=[1, 2], c=[1, 2, 3])
    assert checks.check_fraction(0.5, "alpha") == 0.5
    for value in (0, 1, -0.1, float("nan")):
        with pytest.raises(InputError, match="alpha is"):
            checks.check_fraction(value, "alpha")
    assert checks.check_count(np.int64(3), "n") == 3
    for value in (0, 2.0, True):
        with pytest.raises(InputError, match="n is"):
            checks.check_count(value, "n")


@pytest.mark.parametrize(
    "check", [checks.check_probs, checks.check_scores, checks.check_correct, checks.check_sets, checks.check_features]
)
def test_masks_are_refused_not_ignored(check):
    masked = np.ma.array([[0.5, 0.5], [0.2, 0.8]], mask=[[0, 0], [0, 1]])
    with pytest.raises(InputError, match="masked array with 1 masked entries"):
        check(masked)


def test_a_mask_that_hides_nothing_is_no_mask():
    assert checks.check_labels(np.ma.array([0, 1]), 2).tolist() == [0, 1]
    with pytest.raises(InputError, match="labels is a masked array"):
        checks.check_labels(np.ma.array([0, 1], mask=[True, False]), 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensors_are_taken_off_their_graph(dtype):
    tensor = torch.tensor([[0.25, 0.75]], dtype=dtype, requires_grad=True)
    assert checks.check_probs(tensor).tolist() == [[0.25, 0.75]]
    assert checks.check_features(tensor).tolist() == [[0.25, 0.75]]
    assert tensor.requires_grad
