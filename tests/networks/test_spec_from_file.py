"""What a file says of a network is judged before the network is made."""

from __future__ import annotations

import pytest

from volta.core.errors import InputError
from volta.networks.spec import NetworkSpec, spec_from_json


def stored(*hidden: int) -> NetworkSpec:
    body = {"type": "Mlp", "hidden": list(hidden), "dropout": 0.0}
    return spec_from_json({"body": body, "head": {"type": "Linear"}, "input_shape": [4], "n_classes": 3})


def test_a_network_of_ten_thousand_layers_is_refused():
    with pytest.raises(InputError, match="the network has 10,000 layers; 1,000 is the most"):
        stored(*[1] * 10_000).check_shapes({})


def test_a_huge_layer_is_refused_by_its_shape():
    with pytest.raises(InputError, match="has shape None, the network's has"):
        stored(1 << 30, 1 << 30).check_shapes({})
    sound = stored(8, 8)
    shapes = {name: tuple(value.shape) for name, value in sound.build(seed=0).state_dict().items()}
    sound.check_shapes(shapes)
