"""A backbone by name, by file or as a module, ready for extraction."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import nn

from volta.core.errors import InputError
from volta.core.files import hash_text
from volta.core.limits import DEFAULT_LIMITS, Limits
from volta.core.plugins import Plugin, plugins
from volta.core.source_stamp import file_of, source_stamp
from volta.data.options import data_root
from volta.features.backbones.backbone import Backbone, BackbonePattern, KnownBackbone, OnnxBackbone, TorchBackbone
from volta.features.backbones.efficientnet_lite0 import EFFICIENTNET_LITE0
from volta.features.backbones.hugging_face import HUGGING_FACE
from volta.features.backbones.onnx_file import ONNX_FILE
from volta.features.backbones.resnet18 import RESNET18
from volta.features.backbones.timm import TIMM
from volta.features.backbones.torch_module import module_backbone
from volta.features.preprocessing import Preprocessing
from volta.features.weights import checked_file, hash_weights, load_weights, read_weights

BACKBONES: dict[str, KnownBackbone] = {"resnet18": RESNET18, "efficientnet-lite0": EFFICIENTNET_LITE0}

PATTERNS: tuple[BackbonePattern, ...] = (ONNX_FILE, HUGGING_FACE, TIMM)


def load_backbone(
    name: str | Path | nn.Module | Backbone,
    *,
    weights: Path | None = None,
    root: Path | None = None,
    preprocessing: Preprocessing | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Backbone:
    """Return a backbone ready for extraction.

    Parameters
    ----------
    name
        A name in :data:`BACKBONES`; a path that ends in ``.onnx``; ``hf:MODEL`` for a Hugging Face vision model;
        ``timm:NAME`` for a model of timm; or a module, which is switched to evaluation mode.
    weights
        A ``.safetensors`` or ``.pth`` state dict for a named backbone or a model of timm, in place of the usual one.
    root
        Data folder, where ``volta data get`` puts weights; None: ``VOLTA_DATA`` or the platform's cache folder.
    preprocessing
        In place of the backbone's own. For modules and ONNX files the default is 224×224 (or the file's fixed size)
        with ImageNet's mean and standard deviation.
    limits
        What trying out an ONNX file may cost.
    """
    if isinstance(name, TorchBackbone | OnnxBackbone):
        return name
    pattern = _pattern_of(name)
    if weights is not None and not (name in BACKBONES or (pattern is not None and pattern.takes_weights)):
        raise InputError(f"weights goes with a named backbone ({', '.join(BACKBONES)}); {name} brings its own")
    if isinstance(name, nn.Module):
        return module_backbone(name, preprocessing=preprocessing)
    text = str(name)
    if text in BACKBONES:
        return _load_known(text, weights or find_weights(text, data_root(root)), preprocessing)
    if text in plugins("volta.backbones"):
        return _load_brought(plugins("volta.backbones")[text], preprocessing)
    if pattern is not None:
        return pattern.load(text, preprocessing, weights, limits)
    forms = ", or ".join(pattern.form for pattern in PATTERNS)
    known = ", ".join([*BACKBONES, *plugins("volta.backbones")])
    raise InputError(f"there is no backbone {text!r}; pass one of {known}, {forms}")


def _pattern_of(name: str | Path | nn.Module) -> BackbonePattern | None:
    if isinstance(name, nn.Module):
        return None
    return next((pattern for pattern in PATTERNS if pattern.matches(str(name))), None)


def is_from_hub(name: str) -> bool:
    """Whether a backbone of this name may be fetched over the network."""
    pattern = _pattern_of(name)
    return pattern is not None and pattern.from_hub


def find_weights(name: str, root: Path) -> Path:
    """Return the weights file of a named backbone: from the data folder, else from where else they may be."""
    known = BACKBONES[name]
    path = root / known.weights_file
    return checked_file(path if path.is_file() else known.find_elsewhere(root))


def _load_brought(plugin: Plugin, preprocessing: Preprocessing | None) -> Backbone:
    """Return what an entry point ``volta.backbones`` gives: a function without arguments that makes the network.

    The package's version and the code that makes the network are part of what tells its features from others'.
    """
    make = plugin.load()
    made = make() if callable(make) else make
    if isinstance(made, nn.Module):
        made = module_backbone(made, preprocessing=preprocessing)
    if not isinstance(made, TorchBackbone | OnnxBackbone):
        raise InputError(
            f"the plug-in {plugin.name!r} of {plugin.package} gave a {type(made).__name__}; "
            "expected a function that returns a torch.nn.Module"
        )
    code = source_stamp([file_of(make)]) if callable(make) else ""
    return replace(made, name=plugin.name, weights=hash_text(f"{made.weights} {plugin.package} {code}"))


def _load_known(name: str, weights: Path, preprocessing: Preprocessing | None) -> TorchBackbone:
    known = BACKBONES[name]
    network = known.build()
    load_weights(network, read_weights(weights), known.head, str(weights))
    network.eval()
    preprocessing = preprocessing or known.preprocessing
    fast = None if known.rewrite is None else partial(known.rewrite, network, preprocessing.size)
    return TorchBackbone(name, network, hash_weights(network), preprocessing, fast)
