"""One cell, start to end: training, prediction, metrics, cost."""

from __future__ import annotations

import ctypes
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from volta.bench.cell_metrics import TEST, VAL, EvalSet, metrics_of
from volta.bench.records import Cell, CellRecord, RunConfig, environment, fingerprints_of
from volta.bench.store import RunStore
from volta.core.checks import check_prediction
from volta.core.checksummed import FileKind, decode_arrays, encode_arrays
from volta.core.errors import NO_ROOM, NoRoomError, StoreError
from volta.core.files import inside, lock_file, read_file, remove_temp_files, row_chunks, temp_folder, write_atomic
from volta.core.processes import deterministic_algorithms, torch_threads
from volta.core.types import Array, Prediction, Task
from volta.data.task import cache_folder
from volta.features.backbones.load import BACKBONES
from volta.features.extract import DEFAULT_BACKBONE
from volta.methods.base import Method, PostHoc
from volta.methods.registry import RegisteredMethod, find_method
from volta.methods.saving import count_values, parameters_of
from volta.networks.network import Network, network_from_parts
from volta.networks.outputs import Outputs
from volta.networks.recipe import ProtocolName
from volta.networks.trainer import NetworkStore, OutputCache, Trainer, pick_device
from volta.networks.training import EVAL_ROWS, EpochReport

NETWORK_FILE = FileKind("trained network", 2, "delete it, and it is trained again", max_bytes=1 << 34)


class DiskNetworkStore(NetworkStore):
    """Networks as safetensors files named by key; a lock per key makes concurrent processes train each one once."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    @contextmanager
    def claim(self, key: str, device: torch.device) -> Iterator[Network | None]:
        """Give the network of ``key`` from memory or disk."""
        if key in self._networks:
            yield self._networks[key]
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with lock_file(self._folder, f"{key[:32]}.lock"):
            path = self._path(key)
            network = decode_network(read_file(path, NETWORK_FILE.max_bytes), device) if path.is_file() else None
            if network is not None and network.key == key:
                self._networks[key] = network
            yield self._networks.get(key)

    def keep(self, network: Network) -> None:
        """Store a network in memory and on disk."""
        super().keep(network)
        data = encode_network(network)
        write_atomic(self._path(network.key), lambda file: file.write(data))

    def _path(self, key: str) -> Path:
        return inside(self._folder, f"{key[:32]}.safetensors")


def take_networks(source: Path, target: Path) -> int:
    """Copy the networks of another run that are not here yet; return how many. A key says what each is good for."""
    target.mkdir(parents=True, exist_ok=True)
    names = [path.name for path in sorted(source.glob("*.safetensors")) if not (target / path.name).exists()]
    for name in names:
        data = read_file(inside(source, name), NETWORK_FILE.max_bytes)
        write_atomic(inside(target, name), lambda file, data=data: file.write(data))  # type: ignore[misc]
    return len(names)


def encode_network(network: Network) -> bytes:
    """Return a network as the bytes of a checksummed safetensors file with its description in the header."""
    return bytes(encode_arrays(NETWORK_FILE, network.tensors(), {"network": network.to_json()}))


def decode_network(blob: bytes, device: torch.device) -> Network | None:
    """Return the network; None if the bytes are damaged, so that it is trained anew."""
    try:
        data = np.frombuffer(bytearray(blob), dtype=np.uint8)
        header, tensors = decode_arrays(data, "network", NETWORK_FILE, dict[str, Any])
        with NETWORK_FILE.parsing("network"):
            return network_from_parts(header["network"], tensors, device)
    except StoreError:
        return None


HELD_BYTES = 1 << 30
"""Outputs of one array up to this size are held in memory."""
_PIECE_ROWS = 4 * EVAL_ROWS


class SpilledOutputCache(OutputCache):
    """An output cache that keeps what is larger than ``held`` bytes in files, as read-only memory maps.

    Values are the same, bit for bit: rows go through the network in the same batches. The files lie in ``folder``
    (None: volta's cache folder) under no name, so that nothing is left of them once nobody reads them.
    """

    def __init__(self, held: int = HELD_BYTES, folder: Path | None = None) -> None:
        super().__init__()
        self._held_bytes = held
        self._folder = folder
        self._spilled: dict[tuple[str, str], Outputs] = {}

    def outputs(self, network: Network, name: str, inputs: Array) -> Outputs:
        """Return ``network.outputs(inputs)``, computed once for each network and ``name``."""
        n_bytes = len(inputs) * (8 * network.spec.n_classes + 4 * network.spec.body.width)
        if n_bytes <= self._held_bytes or inputs.ndim != 2:
            return super().outputs(network, name, inputs)
        key = (network.key, name)
        if key not in self._spilled:
            self._spilled[key] = _spilled(network, inputs, self._folder or cache_folder() / "outputs")
        return self._spilled[key]


def _spilled(network: Network, inputs: Array, parent: Path) -> Outputs:
    parent.mkdir(parents=True, exist_ok=True)
    remove_temp_files(parent)
    with temp_folder(parent) as folder:
        logits, features = folder / "logits", folder / "features"
        last_layer = None
        with logits.open("wb") as logits_file, features.open("wb") as features_file:
            for piece in row_chunks(inputs, _PIECE_ROWS):
                found = network.outputs(piece)
                last_layer = found.last_layer
                found.logits.tofile(logits_file)
                found.need_features().tofile(features_file)
        n_rows, spec = len(inputs), network.spec
        return Outputs(
            np.memmap(logits, np.float64, "r", shape=(n_rows, spec.n_classes)),
            np.memmap(features, np.float32, "r", shape=(n_rows, spec.body.width)),
            last_layer,
        )


def predict_sets(method: Method, task: Task, trainer: Trainer) -> dict[str, Array]:
    """Return what is stored of a cell: predictions on test and shifted rows, OOD scores, probabilities of val rows."""

    def predict(name: str, inputs: Array) -> Prediction:
        if isinstance(method, PostHoc):
            outputs = trainer.cache.outputs(method.network_, name, inputs)
            return check_prediction(method.title, method.predict_outputs, outputs, task.fit.n_classes)
        return check_prediction(method.title, method.predict, inputs, task.fit.n_classes)

    arrays = _labelled_arrays("test", predict("test", task.test.inputs), task.test.labels)
    val = task.fit.val
    arrays[f"{VAL}/probs"] = predict("val", val.inputs).probs
    arrays[f"{VAL}/labels"] = val.labels.astype(np.int32)
    for name, ood_set in task.ood.items():
        arrays[f"ood:{name}/ood_score"] = predict(f"ood:{name}", ood_set.inputs).ood_score
    for name, shifted in task.shifts.items():
        arrays |= _labelled_arrays(f"shift:{name}", predict(f"shift:{name}", shifted.inputs), shifted.labels)
    return arrays


def _labelled_arrays(name: str, prediction: Prediction, labels: Array) -> dict[str, Array]:
    arrays: dict[str, Array] = {
        f"{name}/labels": labels.astype(np.int32),
        f"{name}/probs": prediction.probs,
        f"{name}/uncertainty": prediction.uncertainty,
    }
    if name == "test":
        arrays[f"{name}/ood_score"] = prediction.ood_score
    if prediction.sets is not None:
        arrays[f"{name}/sets"] = prediction.sets
    return arrays


N_BATCHES = 5
BATCH_ROWS = 256
BACKBONE_ROWS = 8
BYTES_PER_VALUE = 4
MEGA = 1e6


def measure_efficiency(method: Method, inputs: Array) -> dict[str, float]:
    """Return latency per row (median and 95th percentile), size and peak memory of a fitted method.

    Latency: 5 batches of 256 rows of ``inputs`` (repeated if there are fewer) after one warm-up batch, ms a row.
    Size: every number the method keeps × 4 bytes. Peak memory: how much the process's resident memory grew at most
    when those batches were predicted once more.
    """
    rows = np.resize(np.arange(len(inputs)), N_BATCHES * BATCH_ROWS)
    batches = [np.ascontiguousarray(inputs[part]) for part in np.split(rows, N_BATCHES)]
    return _measured(method.predict, batches, count_values(method))


def _measured(predict: Callable[[Any], object], batches: Sequence[Any], n_values: int) -> dict[str, float]:
    predict(batches[0])
    milliseconds = []
    for batch in batches:
        started = time.perf_counter()
        predict(batch)
        milliseconds.append((time.perf_counter() - started) * 1e3 / len(batch))
    before = _reset_peak()
    for batch in batches:
        predict(batch)
    return {
        "latency_ms": float(np.median(milliseconds)),
        "latency_p95_ms": float(np.percentile(milliseconds, 95)),
        "size_mb": n_values * BYTES_PER_VALUE / MEGA,
        "peak_mb": max(0.0, _peak_bytes() - before) / MEGA,
    }


@cache
def measure_backbone(name: str, device: torch.device, threads: int) -> dict[str, float]:
    """Return the same costs of a backbone of the package on 5 batches of 8 images, resized already.

    Weights change no cost, so that none are needed; ``threads`` is what the caller has set.
    """
    known = BACKBONES[name]
    network = known.build().eval().to(device)
    n_values = sum(parameter.numel() for parameter in network.parameters())
    images = torch.zeros(BACKBONE_ROWS, 3, *known.preprocessing.size, device=device)
    with torch.inference_mode():
        return _measured(lambda batch: network(batch).cpu(), [images] * N_BATCHES, n_values)


def with_backbone(costs: Mapping[str, float], backbone: Mapping[str, float]) -> dict[str, float]:
    """Return the costs of a method on features with those of what makes the features; latency and size stay beside."""
    both = {name: value + backbone[name] for name, value in costs.items()}
    return both | {
        "peak_mb": max(costs["peak_mb"], backbone["peak_mb"]),
        "latency_features_ms": costs["latency_ms"],
        "size_features_mb": costs["size_mb"],
    }


def _reset_peak() -> float:
    """Reset the kernel's high-water mark where it allows that, and return the memory held now.

    Memory that was freed but is still held goes back to the system first: drawing on it would not show as growth.
    """
    if sys.platform == "linux" and hasattr(own := ctypes.CDLL(None), "malloc_trim"):
        own.malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return _peak_bytes()
    return _status_bytes("VmRSS:")


def _peak_bytes() -> float:
    if Path("/proc/self/status").is_file():
        return _status_bytes("VmHWM:")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)


def _status_bytes(field: str) -> float:
    # The process's own name is among the lines, in whatever letters it has.
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(field):
            return float(line.split()[1]) * 1024
    return 0.0


OnEpoch = Callable[[EpochReport], None]


class CellRunner:
    """Runs cells of one configuration in one process; tasks, networks and outputs are shared between them."""

    def __init__(
        self,
        config: RunConfig,
        networks: NetworkStore,
        load: Callable[[Cell], Task],
        find: Callable[[str], RegisteredMethod] = find_method,
    ) -> None:
        self._config = config
        self._networks = networks
        self._outputs = SpilledOutputCache()
        self._block: tuple[str, str, int] | None = None
        self._load, self._find = load, find

    def trainer(self, protocol: str, seed: int, on_epoch: OnEpoch | None = None) -> Trainer:
        """Return what methods of this configuration train with."""
        return Trainer(
            seed=seed,
            protocol=cast(ProtocolName, protocol),
            budget=self._config.budget,
            device=pick_device(self._config.device),
            amp=self._config.amp,
            store=self._networks,
            cache=self._outputs,
            on_epoch=on_epoch,
        )

    def run(self, cell: Cell, on_epoch: OnEpoch | None = None) -> tuple[CellRecord, dict[str, Array]]:
        """Return the cell's record and its predictions."""
        # A thread limit binds the libraries that are loaded: SciPy brings linear algebra of its own.
        import scipy.linalg  # noqa: F401

        with torch_threads(self._config.threads), deterministic_algorithms(self._config.deterministic):
            started = time.perf_counter()
            entry = self._find(cell.method)
            method = entry.method
            task = self._load(cell)
            near = tuple(name for name, ood_set in task.ood.items() if ood_set.near)
            if cell.block != self._block:
                # No other block asks for these outputs and networks again, and with them the inputs they are of can go.
                self._block, self._outputs = cell.block, SpilledOutputCache()
                self._networks.forget()
            trainer = self.trainer(cell.protocol, cell.seed, on_epoch)
            with threadpool_limits(self._config.threads), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fit_started = time.perf_counter()
                method.fit(task.fit, trainer)
                train_s = time.perf_counter() - fit_started + trainer.seconds_reused
                arrays = predict_sets(method, task, trainer)
                metrics, floored = metrics_of(arrays, near)
                costs = measure_efficiency(method, task.test.inputs)
                backbone = self._config.backbone or DEFAULT_BACKBONE
                # The paper's baselines see pixels there; what works on features of images needs their backbone.
                on_images = task.fit.encoder == "vision" and task.fit.kind == "features"
                if cell.protocol == "paper" and on_images and backbone in BACKBONES:
                    costs = with_backbone(costs, measure_backbone(backbone, trainer.device, self._config.threads))
                metrics[TEST] |= costs | {"train_s": train_s}
            record = CellRecord(
                cell=cell,
                title=entry.title,
                origin=entry.origin,
                parameters=parameters_of(method),
                budget=self._config.budget,
                device=self._config.device,
                threads=self._config.threads,
                data=task.hashes,
                source=task.source,
                backbone=self._config.backbone,
                rows={"train": len(task.fit.train), "val": len(task.fit.val), "cal": len(task.fit.cal)}
                | {key.rpartition("/")[0]: len(value) for key, value in arrays.items()},
                near_ood=tuple(EvalSet(f"ood:{name}") for name in near),
                metrics=metrics,
                floored_rows=floored,
                notes=tuple(sorted({str(warning.message) for warning in caught})),
                environment=environment(),
                wall_s=time.perf_counter() - started,
                fingerprints=fingerprints_of(method),
                trainings=tuple(trainer.trainings.values()),
                split=task.split,
            )
            return record, arrays


NOTE_SECONDS = 0.3


@dataclass(frozen=True)
class Outcome:
    """How a try ended: ``done`` with the record, ``failed`` with a reason and a traceback's path, or ``elsewhere``."""

    cell: Cell
    status: Literal["done", "failed", "elsewhere"]
    record: CellRecord | None = None
    reason: str = ""
    path: Path | None = None


def attempt(runner: CellRunner, store: RunStore, cell: Cell, on_epoch: OnEpoch | None = None) -> Outcome:
    """Run a cell unless it is done or another process is at work on it; store it or keep what went wrong."""
    lock = store.try_lock(cell)
    if lock is None:
        return Outcome(cell, "elsewhere")
    try:
        if store.is_done(cell):
            return Outcome(cell, "done", store.read_record(cell))
        record, arrays = runner.run(cell, _noting(store, cell, on_epoch))
    except NoRoomError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise _cannot_write(store, error) from error
        return failed(store, cell, f"{type(error).__name__}: {error}", traceback.format_exc())
    else:
        return finished(store, record, arrays)
    finally:
        store.clear_progress(cell)
        lock.release()


def _noting(store: RunStore, cell: Cell, on_epoch: OnEpoch | None) -> OnEpoch:
    """Return what passes epochs on and leaves a note of them in the store, a few times a second at most."""
    noted = 0.0

    def hear(report: EpochReport) -> None:
        nonlocal noted
        if time.monotonic() - noted > NOTE_SECONDS:
            noted = time.monotonic()
            store.write_progress(cell, report.epoch, report.max_epochs)
        if on_epoch is not None:
            on_epoch(report)

    return hear


def finished(store: RunStore, record: CellRecord, arrays: dict[str, Array]) -> Outcome:
    """Store what a cell gave; a disk that takes no more ends the run with a plain sentence."""
    try:
        return Outcome(record.cell, "done", store.write_cell(record, arrays))
    except OSError as error:
        raise _cannot_write(store, error) from error
    except Exception as error:
        # What a method of somebody's own gave, and no file can hold.
        return failed(store, record.cell, f"{type(error).__name__}: {error}", traceback.format_exc())


def failed(store: RunStore, cell: Cell, reason: str, text: str) -> Outcome:
    """Keep what went wrong in a cell."""
    try:
        return Outcome(cell, "failed", None, reason, store.write_failure(cell, text))
    except OSError as error:
        raise _cannot_write(store, error) from error


def _cannot_write(store: RunStore, error: OSError) -> NoRoomError:
    return NoRoomError(
        f"{store.root} takes no more data ({error.strerror or error}); finished cells are kept: "
        "make room and run the same command again"
    )
