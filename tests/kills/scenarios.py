"""What is killed: one entry a kind of command, each small enough that a kill and the way back cost seconds."""

from __future__ import annotations

import hashlib
import io
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tests.bench.running import results
from volta.bench.store import PREDICTIONS, RECORD, RunStore
from volta.core.cache import ARRAY

_METHODS = "volta,softmax,energy"
_IMAGES = 60


class Scenario(ABC):
    """A command that works in a folder."""

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Put what the command reads into an empty folder."""

    @abstractmethod
    def arguments(self, folder: Path) -> list[str]:
        """Return the command line; given again, it goes on."""

    @abstractmethod
    def result(self, folder: Path) -> object:
        """Return everything that must be the same however often the command was killed."""

    def finished(self, folder: Path) -> dict[str, str]:
        """Return what a kill must not take back, by name: checksums of finished pieces."""
        return {}


@dataclass(frozen=True)
class Bench(Scenario):
    """``volta bench`` on the embedded task."""

    executor: str
    workers: int = 1

    def prepare(self, folder: Path) -> None:
        """Nothing: the data are in the package."""

    def arguments(self, folder: Path) -> list[str]:
        """Return six cells of three epochs."""
        options = ["--methods", _METHODS, "--seeds", "1,2", "--max-epochs", "3", "--no-report", "--threads", "1"]
        workers = ["--workers", str(self.workers)] if self.executor == "processes" else []
        return ["bench", "digits", *options, "--executor", self.executor, *workers, "--out", str(folder / "run")]

    def result(self, folder: Path) -> object:
        """Return every metric with all digits, and the bytes of all predictions."""
        run = folder / "run"
        files = sorted(run.glob(f"cells/*/{PREDICTIONS}"))
        return results(run), {str(path.relative_to(run)): _digest(path) for path in files}

    def finished(self, folder: Path) -> dict[str, str]:
        """Return the finished cells: their records too are not written again."""
        store = RunStore(folder / "run")
        cells = [cell for cell in store.cells() if store.is_done(cell)] if store.has_manifest else []
        files = [store.cell_file(cell, name) for cell in cells for name in (RECORD, PREDICTIONS)]
        return {str(path): _digest(path) for path in files}


class Import(Scenario):
    """``volta data import`` of a zip of images."""

    def prepare(self, folder: Path) -> None:
        """Write the zip."""
        rng = np.random.default_rng(0)
        with zipfile.ZipFile(folder / "images.zip", "w") as archive:
            for part, name, number in np.ndindex(2, 3, _IMAGES):
                out = io.BytesIO()
                Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(out, "PNG")
                archive.writestr(f"{('train', 'test')[part]}/{'abc'[name]}/{number}.png", out.getvalue())

    def arguments(self, folder: Path) -> list[str]:
        """Return the import, which replaces a task that an earlier one finished."""
        return ["data", "import", str(folder / "images.zip"), "--name", "mine", "--force", "--data", str(folder / "d")]

    def result(self, folder: Path) -> object:
        """Return every file of the task."""
        task = folder / "d" / "imported" / "mine"
        return {str(path.relative_to(task)): _digest(path) for path in sorted(task.rglob("*")) if path.is_file()}


class Extract(Import):
    """``volta extract`` of an imported task through an ONNX graph, with the import before it."""

    def prepare(self, folder: Path) -> None:
        """Import the images and write the graph."""
        from onnx import TensorProto, helper

        from volta.data.importing import import_task

        super().prepare(folder)
        import_task(str(folder / "images.zip"), "mine", root=folder / "d")
        images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 64, 64])
        features = helper.make_tensor_value_info("features", TensorProto.FLOAT, None)
        node = helper.make_node("GlobalAveragePool", ["images"], ["features"])
        model = helper.make_model(helper.make_graph([node], "g", [images], [features]), ir_version=8)
        model.opset_import[0].version = 17
        (folder / "pool.onnx").write_bytes(model.SerializeToString())

    def arguments(self, folder: Path) -> list[str]:
        """Return the extraction of all parts."""
        return ["extract", "mine", "--backbone", str(folder / "pool.onnx"), "--data", str(folder / "d")]

    def result(self, folder: Path) -> object:
        """Return every array of features."""
        return sorted(_digest(path) for path in (folder / "d").rglob(ARRAY))


def leftovers(folder: Path) -> list[Path]:
    """Return temporary files and folders below ``folder``."""
    return [path for path in folder.rglob("*") if path.name.startswith(".part-") or path.name.endswith(".part")]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


SCENARIOS: dict[str, Scenario] = {
    "local": Bench("local"),
    "workers": Bench("processes", 2),
    "ray": Bench("ray"),
    "import": Import(),
    "extract": Extract(),
}
"""Every scenario by the name of its option."""
