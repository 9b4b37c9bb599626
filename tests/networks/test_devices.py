"""What differs by device: masks, batches, precision. No GPU is needed: a stand-in for one refuses what it could not do."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.conftest import blobs
from volta.core.errors import InputError
from volta.core.types import FitData, Split
from volta.networks.modules import (
    Cnn,
    Encoder,
    Epinet,
    Epistemic,
    Hyperbolic,
    Linear,
    Mlp,
    Prototypes,
    drawn_on_device,
    drawn_on_processor,
)
from volta.networks.network import Network
from volta.networks.objectives import CrossEntropy, VariancePenalty, VoltaLosses
from volta.networks.recipe import Recipe, TrainingLog
from volta.networks.spec import NetworkSpec
from volta.networks.trainer import Trainer
from volta.networks.training import EVAL_IMAGES, EVAL_ROWS, amp_type, eval_rows, train

CPU, MPS, CUDA = (torch.device(name) for name in ("cpu", "mps", "cuda"))
RECIPE = Recipe("adamw", 1e-2, 1e-3, "onecycle", 64, 4, None)


@pytest.mark.parametrize("draw", [drawn_on_processor, drawn_on_device])
def test_masks_keep_the_share_and_repeat_by_seed(draw):
    values, threshold = torch.zeros(200, 300), round(0.3 * 65536)
    first, again, other = (draw(values, threshold, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.shape == values.shape
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.float().mean().item() == pytest.approx(0.7, abs=0.01)  # five standard errors
    generator = np.random.default_rng(3)
    assert not torch.equal(draw(values, threshold, generator), draw(values, threshold, generator))


def test_evaluation_batches_fit_the_memory_of_a_device():
    image = (3, 32, 32)
    assert eval_rows((512,), CUDA, 1 << 20) == EVAL_ROWS
    assert eval_rows(image, CPU, None) == EVAL_IMAGES
    assert eval_rows(image, CUDA, 80 << 30) == EVAL_ROWS
    assert eval_rows(image, CUDA, 16 << 30) == 2048  # a mebibyte each, an eighth of the memory
    assert eval_rows(image, MPS, None) == 512
    assert eval_rows((3, 224, 224), CUDA, 4 << 30) == 10
    assert eval_rows((3, 4096, 4096), CUDA, 1 << 20) == 1


@pytest.mark.parametrize(("has_bfloat16", "expected"), [(True, torch.bfloat16), (False, torch.float16)])
def test_training_in_half_precision_is_bfloat16_where_a_gpu_has_it(monkeypatch, has_bfloat16, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bfloat16)
    assert amp_type(CUDA) == expected
    assert amp_type(CPU) == torch.bfloat16


def test_training_in_half_precision_is_refused_on_mps():
    with pytest.raises(InputError, match=r"amp is on and device is 'mps'.*leave out --amp"):
        amp_type(MPS)


class FloatsOfDevices(TorchDispatchMode):
    """Within it no operation may give float64, which Apple's GPUs lack."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128):
                raise TypeError(f"{function} gives {value.dtype}")
        return result


def test_the_guard_sees_float64():
    with FloatsOfDevices(), pytest.raises(TypeError, match="float64"):
        torch.ones(2).double()


BODY = Encoder((16,), 0.1)
TRAINED = (
    *((BODY, head, CrossEntropy()) for head in (Prototypes(), Linear(), Hyperbolic(mobius=True), Epistemic(4))),
    (Mlp((16,), 0.2), Epinet(4), VariancePenalty(0.1)),
    (BODY, Prototypes(), VoltaLosses(0.1, 0.1, 0.1, 0.1)),
)


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize(("body", "head", "objective"), TRAINED)
@pytest.mark.parametrize("weighted", [False, True])
def test_training_and_evaluation_meet_no_float64(body, head, objective, optimiser, weighted):
    data, _ = blobs()
    if weighted:
        data = replace(data, train=replace(data.train, weights=np.linspace(0.5, 1.5, len(data.train))))
    spec = NetworkSpec(body, head, data.input_shape, data.n_classes)
    classifier = spec.build(0)
    with FloatsOfDevices():
        train(classifier, data, replace(RECIPE, optimiser=optimiser, max_epochs=1), objective, seed=0, device=CPU)
        network = Network(spec, classifier, TrainingLog(1, None, 0.0, (0.1,), 1.0), "key", CPU)
        assert np.isfinite(network.outputs(data.val.inputs).logits).all()
        drawn_on_device(torch.zeros(4, 5), 1000, np.random.default_rng(0))


def test_images_are_augmented_and_trained_on_without_float64():
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (32, 3, 8, 8), dtype=np.uint8)
    split = Split(images, np.arange(32) % 4)
    data = FitData(split, split, split, 4, augment=True)
    classifier = NetworkSpec(Cnn(), Linear(), (3, 8, 8), 4).build(0)
    with FloatsOfDevices():
        train(classifier, data, replace(RECIPE, max_epochs=1), CrossEntropy(), seed=0, device=CPU)


def test_mixed_precision_trains_other_weights_in_float32_under_a_key_of_its_own():
    data, _ = blobs()
    spec = NetworkSpec(Encoder((16,), 0.1), Prototypes(), data.input_shape, data.n_classes)
    full, mixed = (Trainer(seed=1, amp=amp).network(data, spec, RECIPE) for amp in (False, True))
    assert full.key != mixed.key
    assert all(value.dtype == torch.float32 for value in mixed.classifier.state_dict().values())
    first, second = (network.outputs(data.val.inputs).logits for network in (full, mixed))
    assert not np.array_equal(first, second)
    for logits in (first, second):
        assert (logits.argmax(axis=1) == data.val.labels).mean() > 0.9


def test_deterministic_algorithms_are_part_of_the_key_and_change_nothing_on_a_processor():
    data, _ = blobs()
    spec = NetworkSpec(Encoder((16,), 0.1), Prototypes(), data.input_shape, data.n_classes)
    recipe = replace(RECIPE, max_epochs=1)
    plain = Trainer(seed=1).network(data, spec, recipe)
    torch.use_deterministic_algorithms(True)
    try:
        strict = Trainer(seed=1).network(data, spec, recipe)
    finally:
        torch.use_deterministic_algorithms(False)
    assert plain.key != strict.key
    assert np.array_equal(plain.outputs(data.val.inputs).logits, strict.outputs(data.val.inputs).logits)


class OnDevice(torch.Tensor):
    """A tensor that acts as on a device without float64, as Apple's GPUs: only its copy on the processor has one."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor)
        if function in (torch.Tensor.double, torch.Tensor.numpy) or any(
            value is torch.float64 for value in (*args, *(kwargs or {}).values())
        ):
            raise TypeError(f"{function.__name__} of a tensor on the device")
        return super().__torch_function__(function, types, args, kwargs)


def test_predictions_and_sampled_passes_work_on_a_device_without_float64():
    data, _ = blobs()
    spec = NetworkSpec(Encoder((16,), 0.1), Prototypes(), data.input_shape, data.n_classes)
    classifier = spec.build(0)
    train(classifier, data, replace(RECIPE, max_epochs=1), CrossEntropy(), seed=0, device=CPU)
    inputs, log = data.val.inputs, TrainingLog(1, None, 0.0, (0.1,), 1.0)
    expected = Network(spec, classifier, log, "key", CPU).outputs(inputs).logits
    for part in classifier.modules():
        for name, value in part._parameters.items():
            part._parameters[name] = torch.nn.Parameter(value.detach().as_subclass(OnDevice), requires_grad=False)
    network = Network(spec, classifier, log, "key", CPU)
    with pytest.raises(TypeError, match="double of a tensor on the device"):
        classifier(torch.from_numpy(inputs)).double()
    np.testing.assert_array_equal(network.outputs(inputs).logits, expected)
    (_, passes), *_ = network.sampled_logits(inputs, [np.random.default_rng(0)])
    assert passes[0].dtype == np.float64
    assert passes[0].shape == expected.shape
