"""What a method trains with: seed, protocol, budget, device, and networks shared with other methods.

``paper``  baselines: CNN on pixels or MLP on features, Adam, cosine annealing; VOLTA: its encoder on frozen features.
           All stop early and restore the weights of the lowest validation loss, as in the paper.
``fair``   every method: VOLTA's encoder on the same features with VOLTA's optimiser and one complete OneCycle. Nothing
           stops early and no checkpoint is chosen: the weights at the cycle's end are kept.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from volta.core.errors import InputError
from volta.core.files import canonical_json, hash_array, hash_text
from volta.core.fingerprints import fingerprint
from volta.core.seeding import derive_seed
from volta.core.types import Array, EncoderKind, FitData
from volta.networks.modules import Backbone, Cnn, Encoder, Head, Linear, Mlp
from volta.networks.network import Network
from volta.networks.objectives import CrossEntropy, Objective
from volta.networks.outputs import Outputs, SplitName
from volta.networks.recipe import Budget, ProtocolName, Recipe, TrainingLog
from volta.networks.spec import NetworkSpec, part_to_json
from volta.networks.training import EpochReport, train, train_from_scratch

# By benchmarks/recipe.py (validation NLL after temperature; table in docs/results-checks.md): neither CIFAR-10 nor
# CIFAR-100 tells 10 epochs from 12, and the shorter is taken. Tiny ImageNet, with the tabular encoder, improves up to
# 32, the longest cycle tried.
FAIR_EPOCHS: dict[EncoderKind, int] = {"vision": 10, "tabular": 32}

# Five networks, five seeds, held-out digits: NLL after temperature .0511, .0489, .0526, .0498, .0500 at 80, 160,
# 240, 320, 480 steps. 160 is lowest; 80 is .0021 ± .0013 (standard error) above it, and taken because it costs half.
FAIR_MIN_STEPS = 80

VISION_ENCODER = Encoder(hidden=(512, 256), dropout=0.1, residual=True)
TABULAR_ENCODER = Encoder(hidden=(256, 128, 64), dropout=0.2, projection=128, residual=False)
VISION_RECIPE = Recipe("adamw", 2e-3, 1e-3, "onecycle", batch_size=512, max_epochs=100, patience=20)
TABULAR_RECIPE = Recipe("adamw", 3e-3, 1e-3, "onecycle", batch_size=1024, max_epochs=80, patience=20)
PAPER_RECIPE = Recipe("adam", 1e-3, 1e-4, "cosine", batch_size=256, max_epochs=100, patience=10)


def need_features(data: FitData) -> None:
    """Refuse pixels."""
    if data.kind != "features":
        raise InputError("VOLTA works on frozen features; extract features from the pixels first")


def volta_setup(data: FitData, protocol: ProtocolName) -> tuple[Encoder, Recipe]:
    """Return VOLTA's encoder and the recipe it trains with under ``protocol``."""
    need_features(data)
    vision = data.encoder == "vision"
    encoder, recipe = (VISION_ENCODER, VISION_RECIPE) if vision else (TABULAR_ENCODER, TABULAR_RECIPE)
    if protocol == "fair":
        # To the end, with more epochs where these are too few steps.
        recipe = replace(recipe, max_epochs=FAIR_EPOCHS[data.encoder], patience=None, min_steps=FAIR_MIN_STEPS)
    return encoder, recipe


def baseline_setup(data: FitData, protocol: ProtocolName) -> tuple[Backbone, Recipe]:
    """Return the body and recipe that every baseline trains with under ``protocol``."""
    if protocol == "fair":
        return volta_setup(data, protocol)
    if data.kind == "pixels":
        mean, std = data.normalise or ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        return Cnn(dropout=0.0, mean=mean, std=std), replace(PAPER_RECIPE, max_epochs=data.paper_epochs)
    return Mlp(), replace(PAPER_RECIPE, batch_size=128, max_epochs=data.paper_epochs)


_OUTPUT_CACHE_BYTES = 1 << 30


class NetworkStore:
    """Trained networks of this process, kept between methods; those in ``kept`` are never dropped."""

    def __init__(self, kept: Iterable[Network] = ()) -> None:
        self._kept = {network.key: network for network in kept}
        self._networks = dict(self._kept)

    @contextmanager
    def claim(self, key: str, device: torch.device) -> Iterator[Network | None]:
        """Give the network stored under ``key``; where it gives None, train and keep it there.

        No other process trains the same network while the context is open.
        """
        yield self._networks.get(key)

    def keep(self, network: Network) -> None:
        """Store a network under its key."""
        self._networks[network.key] = network

    def forget(self) -> None:
        """Drop all networks but those that were there from the start."""
        self._networks = dict(self._kept)


class OutputCache:
    """Outputs of networks on named sets of rows, so that methods sharing a network share its forward passes.

    Holds at most ``limit`` bytes and forgets the oldest first.
    """

    def __init__(self, limit: int = _OUTPUT_CACHE_BYTES) -> None:
        self._limit = limit
        self._held: OrderedDict[tuple[str, str], Outputs] = OrderedDict()

    def outputs(self, network: Network, name: str, inputs: Array) -> Outputs:
        """Return ``network.outputs(inputs)``, computed once for each network and ``name``."""
        key = (network.key, name)
        if key not in self._held:
            self._held[key] = network.outputs(inputs)
            while len(self._held) > 1 and sum(kept.nbytes for kept in self._held.values()) > self._limit:
                self._held.popitem(last=False)
        return self._held[key]


@dataclass
class Trainer:
    """Trains networks for methods; asks ``store`` first, so that equal requests train once.

    ``seconds_reused`` adds up the training time of networks that came from the store, less the time it took to get them
    (or to wait for another process to train them): a method's cost includes them. ``trainings`` holds how each network
    was trained that this trainer gave out or trained further, by a name of its own, each once.
    """

    seed: int
    protocol: ProtocolName = "fair"
    budget: Budget = field(default_factory=Budget)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    amp: bool = False
    store: NetworkStore = field(default_factory=NetworkStore)
    cache: OutputCache = field(default_factory=OutputCache)
    on_epoch: Callable[[EpochReport], None] | None = None
    n_trained: int = 0
    seconds_reused: float = 0.0
    trainings: dict[str, TrainingLog] = field(default_factory=dict)

    def network(
        self,
        data: FitData,
        spec: NetworkSpec | None = None,
        recipe: Recipe | None = None,
        objective: Objective | None = None,
        *,
        head: Head | None = None,
        dropout: float | None = None,
        member: int = 0,
    ) -> Network:
        """Return a network trained from scratch; equal requests share one.

        Without ``spec`` and ``recipe`` it is the baselines' network: the protocol's body under ``head``, a linear one
        unless given, with ``dropout`` in place of the body's own. All post-hoc methods share the plain one. The loss is
        cross-entropy unless ``objective`` says otherwise. ``member`` tells apart networks that differ by chance alone.
        """
        if spec is None or recipe is None:
            body, recipe = baseline_setup(data, self.protocol)
            body = body if dropout is None else replace(body, dropout=dropout)
            spec = NetworkSpec(body, head or Linear(), data.input_shape, data.n_classes)
        objective = objective or CrossEntropy()
        applied = self.budget.apply(recipe, len(data.train))
        key = self._key(spec, data, applied, objective, member)
        started = time.perf_counter()
        with self.store.claim(key, self.device) as stored:
            if stored is None:
                self.n_trained += 1
                classifier, log = train_from_scratch(
                    spec,
                    data,
                    applied,
                    objective,
                    seed=self.seed,
                    member=member,
                    device=self.device,
                    amp=self.amp,
                    on_epoch=self.on_epoch,
                )
                network = Network(spec, classifier, log, key, self.device)
                self.store.keep(network)
            else:
                network = stored
                self.seconds_reused += network.log.seconds - (time.perf_counter() - started)
        self.trainings[network.key] = network.log
        return network

    def _key(self, spec: NetworkSpec, data: FitData, recipe: Recipe, objective: Objective, member: int) -> str:
        request: dict[str, Any] = {
            "code": fingerprint((train_from_scratch, type(spec.body), type(spec.head), type(objective))),
            "data": data.fingerprint,
            "spec": spec.to_json(),
            "recipe": asdict(recipe),
            "objective": part_to_json(objective),
            "seed": self.seed,
            "member": member,
            "device": self.device.type,
            "amp": self.amp,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "threads": torch.get_num_threads(),
        }
        return hash_text(canonical_json(request))

    def solved(
        self, spec: NetworkSpec, data: FitData, weight: Array, bias: Array, val_loss: float, seconds: float
    ) -> Network:
        """Return a linear network whose weights (d, K) and bias (K,) were found without epochs."""
        classifier = spec.build(seed=0)
        tensors = {"weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias.copy())}
        classifier.head.load_state_dict({f"linear.{name}": value.float() for name, value in tensors.items()})
        log = TrainingLog(1, None, 0.0, (val_loss,), seconds)
        key = hash_text(canonical_json(["solved", data.fingerprint, spec.to_json(), hash_array(weight)]))
        network = Network(spec, classifier.to(self.device).eval(), log, key, self.device)
        self.trainings[key] = log
        return network

    def snapshots(self, network: Network, data: FitData, recipe: Recipe) -> list[dict[str, Tensor]]:
        """Train a copy of ``network`` further and return its state after each epoch; ``network`` is left alone."""
        classifier = network.copy()
        states: list[dict[str, Tensor]] = []
        on_epoch = self.on_epoch

        def keep(report: EpochReport) -> None:
            states.append({name: value.clone() for name, value in classifier.state_dict().items()})
            if on_epoch is not None:
                on_epoch(report)

        recipe = self.budget.apply(recipe, len(data.train))
        seed = derive_seed(self.seed, "snapshots")
        log = train(
            classifier, data, recipe, CrossEntropy(), seed=seed, device=self.device, amp=self.amp, on_epoch=keep
        )
        self.trainings[f"{network.key}/snapshots"] = log
        return states

    def outputs(self, network: Network, data: FitData, name: SplitName) -> Outputs:
        """Return the network's outputs on a split of the data it was trained on, from this trainer's cache."""
        return self.cache.outputs(network, name, getattr(data, name).inputs)


def pick_device(name: str) -> torch.device:
    """Return the torch device for ``auto``, ``cpu``, ``cuda`` or ``mps``; say so if it is not there."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if available[kind]))
    if name not in available:
        raise InputError(f"device is {name!r}; pass auto, cpu, cuda or mps")
    if not available[name]:
        raise InputError(f"device {name!r} is not available on this machine; pass auto or cpu")
    return torch.device(name)
