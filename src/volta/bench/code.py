"""Which code decided a result: hashes of the sources that training, prediction and metrics run through."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path

import volta.methods
import volta.metrics
import volta.networks
from volta.bench import efficiency, evaluate, scoring
from volta.core.files import hash_file, hash_text
from volta.methods import METHODS
from volta.methods.base import Method


def code_of(method: Method) -> str:
    """Return a hash of the method's own source, of what methods share, and of all training, metric and scoring code.

    Changing one method changes its cells' keys alone; changing the training loop or a metric changes every key.
    Versions of other libraries are recorded with each cell and are not part of its key.
    """
    source = Path(inspect.getfile(type(method)))
    return hash_text(hash_file(source) + _shared_code())


@cache
def _shared_code() -> str:
    own = {inspect.getfile(method) for method in METHODS.values() if method.__name__ != "Volta"}
    packages = (volta.networks, volta.methods, volta.metrics)
    folders = (Path(next(iter(package.__path__))) for package in packages)
    paths = sorted(path for folder in folders for path in folder.glob("*.py") if str(path) not in own)
    paths += [Path(inspect.getfile(module)) for module in (efficiency, evaluate, scoring)]
    return hash_text("".join(f"{path.name} {hash_file(path)}\n" for path in paths if path.name != "__init__.py"))
