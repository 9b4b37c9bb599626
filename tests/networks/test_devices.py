"""What differs by device: masks, batches, precision. No GPU is needed: a stand-in for one refuses what it could not do."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import blobs
from volta.networks.modules import Encoder, Prototypes, drawn_on_device, drawn_on_processor
from volta.networks.network import Network
from volta.networks.objectives import CrossEntropy
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
    assert eval_rows(image, CUDA, 16 << 30) == EVAL_ROWS
    assert eval_rows(image, MPS, None) == 512
    assert eval_rows((3, 224, 224), CUDA, 4 << 30) == 20
    assert eval_rows((3, 4096, 4096), CUDA, 1 << 20) == 1


def test_half_precision_is_float16_where_there_is_no_fast_bfloat16():
    assert amp_type(CPU) == torch.bfloat16
    assert amp_type(MPS) == torch.float16


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
