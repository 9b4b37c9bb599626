"""Files of own predictions, of any kind that tables are stored in, become models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from volta.bench.own.checking import check_model
from volta.bench.own.keyed_arrays import read_keyed
from volta.bench.own.long_table import is_long, read_long
from volta.bench.own.predictions import OwnModel
from volta.core.errors import InputError
from volta.data.formats.tabular_files import open_table


def read_models(
    paths: Iterable[Path],
    *,
    logits: bool = False,
    method: str | None = None,
    seed: int | None = None,
    say: Callable[[str], object] | None = None,
    check: Callable[[OwnModel], OwnModel] = check_model,
) -> list[OwnModel]:
    """Return the models of all files, each as ``check`` leaves it; nothing is written.

    logits: whether probabilities are logits, which is never guessed. method, seed: names for files that do not say
    them; a file called ``METHOD-SEED.npz`` does, any other is a method of seed 0. say: hears of unused columns.
    """
    models: dict[tuple[str, int], OwnModel] = {}
    for path in paths:
        for model in _read(path, logits, method, seed, say):
            key = model.method, model.seed
            if key in models:
                raise InputError(
                    f"{model.where} holds {model.label}, which {models[key].where} holds too; name them apart with "
                    "--method and --seed, or by file names METHOD-SEED.npz"
                )
            models[key] = model
    if not models:
        raise InputError("no file is named; pass at least one")
    return [check(model) for model in models.values()]


def name_in_file(path: Path) -> tuple[str, int]:
    """Return method and seed that a file's name says: ``METHOD-SEED``, or a method alone, of seed 0.

    >>> name_in_file(Path("runs/resnet-42.npz")), name_in_file(Path("net.v1-7.csv.gz")), name_in_file(Path("a-b.csv"))
    (('resnet', 42), ('net.v1', 7), ('a-b', 0))
    """
    stem = Path(path.name.removesuffix(".gz")).stem
    method, dash, seed = stem.rpartition("-")
    return (method, int(seed)) if dash and method and seed.isdecimal() else (stem, 0)


def _read(
    path: Path, logits: bool, method: str | None, seed: int | None, say: Callable[[str], object] | None
) -> list[OwnModel]:
    table = open_table(path)
    told = name_in_file(path)
    one, which = method if method is not None else told[0], seed if seed is not None else told[1]
    if path.suffix == ".npz" and not is_long(table):
        model, unused = read_keyed(table, one, which, logits)
        models = [model]
    else:
        for name, given in (("method", method), ("seed", seed)):
            if given is not None and name in table.names:
                raise InputError(f"--{name} is {given}, but {path} has a column {name}; leave one of them out")
        models, unused = read_long(table, one, which, logits)
    if unused and say is not None:
        say(f"{path}: not used: {', '.join(unused)}")
    return models
