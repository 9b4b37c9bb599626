"""A folder of tables, decided file by file: streamed, in processes or on a Ray cluster, resumable."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.core.checksummed import FileKind, read_object, write_object
from volta.core.errors import InputError, MissingDataError, StoreError, VoltaError, VoltaWarning
from volta.core.files import canonical_json, hash_file, hash_text
from volta.core.processes import process_pool
from volta.core.types import Array
from volta.decisions import Decisions
from volta.decisions.decide import ACTIONS
from volta.decisions.monitor import BEYOND

if TYPE_CHECKING:
    from volta.data.feature_files import FeatureTable
    from volta.estimators.deciding import ErrorsName
    from volta.estimators.row_classifier import RowClassifier

RECORDS = ".volta"
SUMMARY = "summary.csv"
N_BINS = 10
RECORD_FILE = FileKind("record of a decided file", 1, "remove it, and the file is decided again")
_KILLED = "a process was killed by the operating system, perhaps for lack of memory; pass fewer --workers"
_INPUTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".pq")


@dataclass(frozen=True)
class FolderJob:
    """How files are decided; with a file's name, size and time all of it is in the key of its result.

    ``policy``: what ``fit_policy`` is called with, empty for the model's own policy.
    """

    model: str
    digest: str
    alpha: float
    fpr: float
    policy: dict[str, float]
    label: str | None
    ids: tuple[str, ...]
    errors: ErrorsName = "flag"


@dataclass(frozen=True)
class FileRecord:
    """What came of one file: rows by action, p-values in tenths, and the labelled answers that were wrong."""

    name: str
    key: str
    rows: int
    actions: tuple[int, int, int]
    pvalues: tuple[int, ...]
    mean_pvalue: float
    share_beyond: float
    n_labelled: int
    n_errors: int
    seconds: float


@dataclass(frozen=True)
class Failure:
    """A file that could not be decided, and why."""

    name: str
    problem: str


def decide_folder(
    folder: Path,
    out: Path,
    job: FolderJob,
    *,
    workers: int = 1,
    executor: str = "local",
    address: str | None = None,
    force: bool = False,
) -> Iterator[FileRecord | Failure]:
    """Decide every table below a folder into a file of the same name below ``out``; yield each one's record.

    A file that is done is not decided again while its input, the model and the settings stay the same. ``executor``:
    ``local``, ``workers`` processes, or ``ray``, an actor with the model for each processor of the cluster, which must
    see both folders. At the end ``summary.csv`` has a row a file.
    """
    if executor not in ("local", "ray"):
        raise InputError(f"--executor is {executor!r}; pass local or ray")
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name.lower().endswith(_INPUTS)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not names:
        raise InputError(f"{folder} has no tables; their names have to end in one of {', '.join(_INPUTS)}")
    if out.resolve() == folder.resolve() or folder.resolve() in out.resolve().parents:
        raise InputError(f"--out is {out}, which is in the folder that is read; name another")
    if len(set(map(output_name, names))) < len(names):
        raise InputError(
            f"{folder} has files whose results would have one name, such as x.csv and x.csv.gz; rename one"
        )
    found: list[FileRecord | Failure] = []
    missing = []
    for name in names:
        record = _finished(folder, out, name, job, force)
        if record is None:
            missing.append(name)
        else:
            found.append(record)
    yield from found
    work = partial(decide_file, folder, out, job)
    run = _on_ray(folder, out, job, missing, address) if executor == "ray" else _in_processes(work, missing, workers)
    for made in run:
        found.append(made)
        yield made
    _write_summary(out, [record for record in found if isinstance(record, FileRecord)])


def output_name(name: str) -> str:
    """Return the name of a file's result: it is not compressed again."""
    return name[:-3] if name.lower().endswith(".gz") else name


def _record_path(out: Path, name: str) -> Path:
    return out / RECORDS / f"{name}.json"


def _key(folder: Path, name: str, job: FolderJob) -> str:
    status = (folder / name).stat()
    settings = {field: value for field, value in vars(job).items() if field != "model"}
    return hash_text(canonical_json([name, status.st_size, status.st_mtime_ns, settings]))


def _finished(folder: Path, out: Path, name: str, job: FolderJob, force: bool) -> FileRecord | None:
    """Return the record of a file that is done, None for one that is not; refuse to replace other results."""
    made, path = out / output_name(name), _record_path(out, name)
    record = None
    if made.exists() and path.exists():
        record = read_object(path, RECORD_FILE, FileRecord)
        if record.key == _key(folder, name, job):
            return record
    if made.exists() and not force:
        why = "no volta decide" if record is None else "another model, other settings or an older file"
        raise InputError(f"{made} exists and is from {why}; name another --out, or pass --force to replace it")
    return None


_loaded: dict[str, RowClassifier] = {}
"""The model of this process."""


def decide_file(folder: Path, out: Path, job: FolderJob, name: str) -> FileRecord | Failure:
    """Decide one file, chunk by chunk; the result appears when it is whole, then its record."""
    try:
        with warnings.catch_warnings():
            # Of too few calibration rows the model's card tells; columns are matched to the model by name already.
            warnings.simplefilter("ignore", VoltaWarning)
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return _decide_file(folder, out, job, name)
    except (VoltaError, OSError) as error:
        return Failure(name, str(error))


def _decide_file(folder: Path, out: Path, job: FolderJob, name: str) -> FileRecord:
    from volta.data.tables import labels_like, new_table

    started = time.perf_counter()
    key = _key(folder, name, job)
    classifier = _model(job)
    table = model_rows(classifier, folder / name, job.label, job.ids)
    actions, tenths = np.zeros(len(ACTIONS), np.int64), np.zeros(N_BINS, np.int64)
    total, n_beyond, n_labelled, n_errors = 0.0, 0, 0, 0
    with new_table(out / output_name(name), overwrite=True) as writer:
        for part in table.chunks():
            decisions = classifier.decide(part.rows, fpr=job.fpr, alpha=job.alpha, errors=job.errors)
            made = decision_columns(decisions)
            given = part.ids | ({} if part.labels is None else {"true_label": part.labels})
            check_extra_columns(given, made)
            writer.write(given | made)
            actions += np.bincount(decisions.action, minlength=len(ACTIONS))
            pvalues = np.ones(len(decisions)) if decisions.pvalue is None else decisions.pvalue
            tenths += np.bincount(np.minimum((N_BINS * pvalues).astype(np.intp), N_BINS - 1), minlength=N_BINS)
            total, n_beyond = total + float(pvalues.sum()), n_beyond + int((pvalues <= BEYOND).sum())
            if part.labels is not None:
                answered = decisions.action == ACTIONS.index("answer")
                n_labelled += int(answered.sum())
                where = f"{folder / name} column {job.label!r}"
                true = labels_like(np.asarray(part.labels), classifier.classes_, where)
                n_errors += int(((true != decisions.label) & answered).sum())
    rows = int(actions.sum())
    first, second, third = actions.tolist()
    record = FileRecord(
        name=name,
        key=key,
        rows=rows,
        actions=(first, second, third),
        pvalues=tuple(tenths.tolist()),
        mean_pvalue=total / rows,
        share_beyond=n_beyond / rows,
        n_labelled=n_labelled,
        n_errors=n_errors,
        seconds=time.perf_counter() - started,
    )
    write_object(_record_path(out, name), RECORD_FILE, record)
    return record


def _model(job: FolderJob) -> RowClassifier:
    from volta.estimators.row_classifier import RowClassifier
    from volta.estimators.saving import load

    place = canonical_json([job.digest, job.policy])
    if place not in _loaded:
        classifier = load(job.model)
        if not isinstance(classifier, RowClassifier):
            raise InputError(
                f"{job.model} holds a {type(classifier).__name__}; folders need a classifier of table rows"
            )
        if job.policy:
            classifier.fit_policy(**job.policy)
        _loaded.clear()
        _loaded[place] = classifier
    return _loaded[place]


def model_rows(
    classifier: RowClassifier, data: Path, label: str | None, ids: Sequence[str] | None, *, labelled: bool = False
) -> FeatureTable:
    """Open the samples of a table in the model's column order."""
    from volta.data.feature_files import Roles, open_features

    known = classifier.fit_record_.label
    roles = Roles(label, tuple(ids or ()), (known,) if known else ())
    names = getattr(classifier, "feature_names_in_", None)
    return open_features(
        data,
        roles,
        names=None if names is None else [str(name) for name in names],
        n_features=classifier.n_features_in_,
        labelled=labelled,
        mixed=classifier.schema_ is not None,
    )


def check_extra_columns(given: Mapping[str, object], made: Mapping[str, object]) -> None:
    """Raise if an ID column has the name of a result column."""
    taken = sorted(set(given) & set(made))
    if taken:
        raise InputError(f"--id is {taken[0]!r}, which is a column of the result; give the column another name")


def decision_columns(decisions: Decisions) -> dict[str, Array]:
    """Return the columns to write; a prediction set is its classes joined by ``|``."""
    columns: dict[str, Array] = {
        "action": np.array(ACTIONS)[decisions.action],
        "label": decisions.label,
        "probability": decisions.probability,
        "uncertainty": decisions.uncertainty,
    }
    if decisions.pvalue is not None:
        columns["pvalue"] = decisions.pvalue
    if decisions.sets is not None:
        columns["set"] = _set_texts(decisions.sets, decisions.class_names)
    return columns | {"reason": decisions.row_reasons()}


def _set_texts(sets: Array, names: Array) -> Array:
    """Return each sample's prediction set as text; the few distinct sets are formatted once."""
    words = [str(name).replace("|", "\\|") for name in names]
    distinct, which = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)
    members = np.unpackbits(distinct, axis=1, count=sets.shape[1]).astype(np.bool_)
    texts = np.array(["|".join(words[k] for k in np.flatnonzero(row)) for row in members])
    return texts[which.reshape(-1)]


Work = Callable[[str], FileRecord | Failure]


def _in_processes(work: Work, names: Sequence[str], workers: int) -> Iterator[FileRecord | Failure]:
    if workers <= 1 or len(names) <= 1:
        yield from map(work, names)
        return
    waiting, running = deque(names), dict[Future[Any], str]()
    with process_pool(min(workers, len(names)), _one_thread) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < 2 * workers:
                    name = waiting.popleft()
                    running[pool.submit(work, name)] = name
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    yield future.result()
        except BrokenProcessPool as error:
            raise StoreError(f"{_KILLED}; finished files are kept, run the same command again to resume") from error


def _one_thread() -> None:
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)


def _on_ray(
    folder: Path, out: Path, job: FolderJob, names: Sequence[str], address: str | None
) -> Iterator[FileRecord | Failure]:
    """Give each file to the next free of a pool of actors; Ray starts one that dies again and repeats its file."""
    from volta.bench.executors import MAX_RETRIES, connect_ray

    ray = connect_ray(address)
    from ray.util import ActorPool

    content = ray.put(Path(job.model).read_bytes())
    n_actors = max(1, min(len(names), int(ray.cluster_resources().get("CPU", 1))))
    actor = ray.remote(num_cpus=1, max_restarts=MAX_RETRIES, max_task_retries=MAX_RETRIES)(_Scorer)
    pool: Any = ActorPool([actor.remote(folder.resolve(), out.resolve(), job, content) for _ in range(n_actors)])
    yield from pool.map_unordered(lambda scorer, name: scorer.decide.remote(name), list(names))


class _Scorer:
    """An actor with the model, whose file its node need not have."""

    def __init__(self, folder: Path, out: Path, job: FolderJob, content: bytes) -> None:
        self._work = partial(decide_file, folder, out, job)
        _one_thread()
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / Path(job.model).name
            path.write_bytes(content)
            _model(FolderJob(**vars(job) | {"model": str(path)}))

    def decide(self, name: str) -> FileRecord | Failure:
        """Decide one file."""
        return self._work(name)


def _write_summary(out: Path, records: Sequence[FileRecord]) -> None:
    from volta.data.tables import new_table

    records = sorted(records, key=lambda record: record.name)
    if not records:
        return
    with new_table(out / SUMMARY, overwrite=True) as writer:
        writer.write(
            {
                "file": np.array([record.name for record in records]),
                "rows": np.array([record.rows for record in records]),
                **{
                    action: np.array([record.actions[place] for record in records])
                    for place, action in enumerate(ACTIONS)
                },
                "mean_pvalue": np.array([record.mean_pvalue for record in records]),
                "share_beyond": np.array([record.share_beyond for record in records]),
                "labelled_answers": np.array([record.n_labelled for record in records]),
                "wrong_answers": np.array([record.n_errors for record in records]),
                "seconds": np.array([record.seconds for record in records]),
            }
        )


def summary_lines(records: Sequence[FileRecord | Failure], seconds: float) -> list[str]:
    """Return what came of a folder in words: rates, drift, and the file that differs most."""
    done = [record for record in records if isinstance(record, FileRecord)]
    failed = [record for record in records if isinstance(record, Failure)]
    rows = sum(record.rows for record in done)
    lines = [f"failed: {one.name}: {one.problem}" for one in failed]
    if not rows:
        return lines
    totals = [sum(record.actions[place] for record in done) for place in range(len(ACTIONS))]
    shares = ", ".join(
        f"{count:,} {action} ({count / rows:.1%})" for action, count in zip(ACTIONS, totals, strict=True)
    )
    lines.append(f"{rows:,} rows in {len(done)} files: {shares}; {seconds:.1f} s")
    mean = sum(record.mean_pvalue * record.rows for record in done) / rows
    beyond = sum(record.share_beyond * record.rows for record in done) / rows
    lines.append(
        f"drift: mean p-value {mean:.3f} (0.5 without), {beyond:.1%} of p-values at most {BEYOND} (5% without)"
    )
    if len(done) > 1:
        worst = max(done, key=lambda record: abs(record.mean_pvalue - 0.5) * record.rows**0.5)
        lines.append(f"furthest from the calibration set: {worst.name}, mean p-value {worst.mean_pvalue:.3f}")
    if n_labelled := sum(record.n_labelled for record in done):
        n_errors = sum(record.n_errors for record in done)
        lines.append(f"labelled answers: {n_errors:,} of {n_labelled:,} wrong ({n_errors / n_labelled:.2%})")
    return lines


def folder_job(
    model: Path,
    *,
    alpha: float,
    fpr: float,
    policy: dict[str, float],
    label: str | None,
    ids: Sequence[str],
    errors: ErrorsName = "flag",
) -> FolderJob:
    """Return the job of a model in a file."""
    if not model.is_file():
        raise MissingDataError(f"MODEL is {model}, which does not exist; make one with volta fit")
    return FolderJob(str(model.resolve()), hash_file(model), alpha, fpr, policy, label, tuple(ids), errors)
