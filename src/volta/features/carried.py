"""Engines that run a graph from a file, carried to machines that do not have the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from volta.core.files import hash_file, hash_text, write_atomic
from volta.data.formats.onnx_graph import probe_onnx
from volta.data.options import cache_folder
from volta.features.engines import Engine, GraphEngine, OnnxEngine
from volta.features.openvino import OpenvinoEngine


@dataclass(frozen=True, eq=False)
class CarriedFiles:
    """The graph of an engine, the first, and files of weights beside it: bytes and SHA-256 by name."""

    contents: Mapping[str, bytes]
    digests: Mapping[str, str]


def files_of(engine: Engine) -> CarriedFiles:
    """Return what an engine runs; nothing of one that holds its network itself."""
    paths: tuple[Path, ...] = ()
    if isinstance(engine, GraphEngine | OpenvinoEngine):
        paths = (engine.path,)
    elif isinstance(engine, OnnxEngine):
        paths = (engine.path, *probe_onnx(engine.path).weight_files)
    # Files of weights may lie in folders below the graph's.
    names = [str(path.relative_to(paths[0].parent)) for path in paths]
    return CarriedFiles(
        {name: path.read_bytes() for name, path in zip(names, paths, strict=True)},
        {name: hash_file(path) for name, path in zip(names, paths, strict=True)},
    )


def with_files(engine: Engine, carried: CarriedFiles) -> Engine:
    """Return the engine with its files as they lie here, first put into this machine's cache if they do not."""
    if not isinstance(engine, GraphEngine | OpenvinoEngine | OnnxEngine):
        return engine
    here = engine.path.parent
    if _are_in(here, carried):
        return engine
    folder = cache_folder() / "onnx" / hash_text(" ".join(carried.digests.values()))[:32]
    if not _are_in(folder, carried):
        for name, content in carried.contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
    return replace(engine, path=folder / next(iter(carried.contents)))


def _are_in(folder: Path, carried: CarriedFiles) -> bool:
    return all((folder / name).is_file() and hash_file(folder / name) == of for name, of in carried.digests.items())
