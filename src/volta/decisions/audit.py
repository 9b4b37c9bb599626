"""Crash tests of guarantees: any rule with a stated rate, on rows made to break it."""

from __future__ import annotations

import inspect
import sys
import textwrap
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from volta.core.checks import check_count
from volta.core.errors import InputError
from volta.core.seeding import check_seed
from volta.decisions.conformal import Floats, binomial_cdf, binomial_interval, exact_level

Array: TypeAlias = NDArray[Any]
Rule: TypeAlias = Callable[[Array], Any]
Fit: TypeAlias = Callable[[Array, Array, int], Rule]
Sample: TypeAlias = Callable[[np.random.Generator, int, int], tuple[Array, Array]]
# Failures and rows, of all rows ("") or of each class.
Counts: TypeAlias = dict[str, tuple[float, int]]
Count: TypeAlias = Callable[[Rule, Array, Array, Array], Counts]
Verdict: TypeAlias = Literal["broken", "too few draws", "kept", "refused", "outside the stated assumption"]

FAMILY_CONFIDENCE = 0.99
TOLERANCE = 0.5
_BETS = 0.99 * 0.7 ** np.arange(12)
_BISECTIONS = 50


@dataclass(frozen=True)
class Attack:
    """A law of rows: ``sample(rng, n_rows, n_new)`` returns X (n_rows + n_new, d) and classes y, in order of time.

    The first ``n_rows``, the last of ``sizes``, are fitted, the others are new. ``outside`` says how the rows break
    exchangeability; empty where they do not. With several sizes a rule is fitted on that many first rows each, and the
    one that looks best on all of them is used: the fewest classes in its sets, the most flags or answers.
    """

    name: str
    sample: Sample
    sizes: tuple[int, ...] = (200,)
    outside: str = ""


def plain(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """Three overlapping Gaussian classes in four columns."""
    y = rng.integers(3, size=n_rows + n_new)
    return rng.normal(size=(len(y), 4)) + 1.5 * np.eye(3, 4)[y], y


def ties(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """Columns rounded to whole numbers."""
    x, y = plain(rng, n_rows, n_new)
    return np.round(x), y


def duplicates(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """Each row is, with probability 0.2, one record that carries the wrong class."""
    x, y = plain(rng, n_rows, n_new)
    repeated = rng.random(len(y)) < 0.2
    x[repeated], y[repeated] = 1.5 * np.eye(3, 4)[0], 1
    return x, y


def imbalance(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """Three overlapping classes, one of them 1:100."""
    n = n_rows + n_new
    y = np.where(rng.random(n) < 1 / 101, 2, rng.integers(2, size=n))
    return rng.normal(size=(n, 4)) + 1.5 * np.eye(3, 4)[y], y


def heavy_tails(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """Cauchy noise."""
    y = rng.integers(3, size=n_rows + n_new)
    return rng.standard_t(1, size=(len(y), 4)) + 1.5 * np.eye(3, 4)[y], y


def discrete(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """Four binary columns: at most 16 different rows."""
    x, y = plain(rng, n_rows, n_new)
    return (x > 0.75).astype(float), y


def label_noise(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """A fifth of the classes, of fitted and of new rows, is drawn at random."""
    x, y = plain(rng, n_rows, n_new)
    noisy = rng.random(len(y)) < 0.2
    y[noisy] = rng.integers(3, size=int(noisy.sum()))
    return x, y


def contaminated(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """A fifth of the fitted rows, and no new one, lies at the centre of its class."""
    x, y = plain(rng, n_rows, n_new)
    easy = np.flatnonzero(rng.random(n_rows) < 0.2)
    x[easy] = 1.5 * np.eye(3, 4)[y[easy]]
    return x, y


def drift(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """The first column moves by one standard deviation over the fitted rows, and by one more over the new rows."""
    x, y = plain(rng, n_rows, n_new)
    x[:, 0] += np.concatenate([np.linspace(0, 1, n_rows), np.linspace(1, 2, n_new)])
    return x, y


def autocorrelated(rng: np.random.Generator, n_rows: int, n_new: int) -> tuple[Array, Array]:
    """A stationary series: the noise of each row keeps 0.9 of that of the row before."""
    y = rng.integers(3, size=n_rows + n_new)
    noise = rng.normal(size=(len(y), 4))
    for row in range(1, len(y)):
        noise[row] = 0.9 * noise[row - 1] + np.sqrt(1 - 0.9**2) * noise[row]
    return noise + 1.5 * np.eye(3, 4)[y], y


ATTACKS: tuple[Attack, ...] = (
    Attack("plain", plain),
    Attack("ties", ties),
    Attack("duplicates", duplicates),
    Attack("tiny n", plain, (20,)),
    Attack("imbalance 1:100", imbalance, (1000,)),
    Attack("heavy tails", heavy_tails),
    Attack("discrete rows", discrete),
    Attack("label noise", label_noise),
    Attack("contaminated rows", contaminated, outside="fitted rows are easier than new ones"),
    Attack("drift", drift, outside="rows change with time, and new ones come later"),
    Attack("autocorrelation", autocorrelated, outside="rows depend on those before them"),
    Attack("optional stopping", plain, (40, 80, 120, 160, 200), outside="results decide how many rows are fitted"),
)


def missed(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Count rows whose class is not in their set; a class that no fitted row had is never missed."""
    sets, known = np.asarray(rule(x)).astype(bool), np.isin(y, classes)
    columns = np.searchsorted(classes, np.where(known, y, classes[0]))
    return {"": (int((known & ~sets[np.arange(len(y)), columns]).sum()), len(y))}


def missed_by_class(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Count rows whose class is not in their set, of each class."""
    sets, names = np.asarray(rule(x)).astype(bool), classes.tolist()
    return {f"class {k}": (int((~sets[y == k, j]).sum()), int((y == k).sum())) for j, k in enumerate(names)}


def false_alarms(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Count flags; every row is in-distribution."""
    return {"": (int(np.count_nonzero(rule(x))), len(x))}


def wrong_answers(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Count answers, which are classes of at least 0, and those that are wrong."""
    answers = np.asarray(rule(x))
    return {"": (int(((answers >= 0) & (answers != y)).sum()), int((answers >= 0).sum()))}


def false_discoveries(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Sum, over batches of 50 rows of which five are moved by 10, the share of unmoved rows among the flags."""
    moved = np.arange(50) % 10 == 0
    flags = [np.asarray(rule(batch + 10.0 * moved[:, None])).astype(bool) for batch in np.split(x, len(x) // 50)]
    return {"": (sum(float((f & ~moved).sum() / max(1, f.sum())) for f in flags), len(flags))}


def any_alarm(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Tell whether any alarm is raised on a stream without a change."""
    return {"": (int(np.any(rule(x))), 1)}


_CLAIMS: dict[str, Count] = {
    "coverage": missed,
    "class_coverage": missed_by_class,
    "false_alarms": false_alarms,
    "selective_risk": wrong_answers,
    "fdr": false_discoveries,
    "ever_alarm": any_alarm,
}


def appeal(rule: Rule, x: Array) -> float:
    """Say how good a rule looks: few classes in its sets, many flags or answers."""
    said = np.asarray(rule(x))
    return -float(said.mean()) if said.ndim == 2 else float(np.mean(said >= 0 if said.dtype.kind in "iu" else said))


def one_draw(fit: Fit, sample: Sample, count: Count, sizes: Sequence[int], n_new: int, seed: list[int]) -> Counts | str:
    """Draw rows, fit a rule, and count its failures on new rows; or return why the rule raised."""
    rng = np.random.default_rng(seed)
    x, y = sample(rng, sizes[-1], n_new)
    fit_seed, new = int(rng.integers(2**31)), slice(sizes[-1], None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            rules = [fit(x[:size], y[:size], fit_seed) for size in sizes]
            best = int(np.argmax([appeal(rule, x[: sizes[-1]]) for rule in rules])) if len(rules) > 1 else 0
            return count(rules[best], x[new], y[new], np.unique(y[: sizes[best]]))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class AttackResult:
    """What one attack measured, of all rows or of one class (``part``).

    ``measured``: the failure rate, with its interval from ``low`` to ``high``; ``stated``: the most that the guarantee
    allows. With a confidence failures are draws whose own rate exceeds the level. ``refused``: draws in which the call
    raised, counted as draws without a failure; ``error``: what the first of them said.
    """

    attack: str
    part: str
    outside: str
    n_rows: int
    n_draws: int
    refused: int
    measured: float
    low: float
    high: float
    stated: float
    error: str

    @property
    def verdict(self) -> Verdict:
        """Broken where the whole interval exceeds the stated rate, kept where all of it is at most half above it."""
        if self.refused > self.n_draws / 2:
            return "refused"
        if self.low > self.stated:
            return "outside the stated assumption" if self.outside else "broken"
        return "kept" if self.high <= (1 + TOLERANCE) * self.stated else "too few draws"


@dataclass(frozen=True)
class Audit:
    """The results of all attacks; ``script``: a program without volta that repeats ``worst``, the worst of them."""

    claim: str
    results: tuple[AttackResult, ...]
    worst: AttackResult
    script: str

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the attacks within the assumption; "refused" where each of them was."""
        verdicts = {result.verdict for result in self.results if not result.outside} or {"too few draws"}
        return next(verdict for verdict in get_args(Verdict) if verdict in verdicts)

    def __str__(self) -> str:
        rows = [("attack", "rows", "draws", "refused", "failures", "interval", "stated", "verdict")]
        for r in self.results:
            counts = (str(r.n_rows), str(r.n_draws), str(r.refused))
            interval = f"[{r.low:.3f}, {r.high:.3f}]"
            name = f"{r.attack} {r.part}".rstrip()
            rows.append((name, *counts, f"{r.measured:.3f}", interval, f"{r.stated:.3g}", r.verdict))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"{self.claim}: {self.verdict}", *lines])


def audit(
    fit: Fit,
    claim: str,
    level: float,
    *,
    confidence: float | None = None,
    attacks: Sequence[Attack | str] = ATTACKS,
    draws: int = 200,
    n_new: int | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool = False,
) -> Audit:
    """Attack a stated guarantee with rows made to break it, and say what it keeps.

    ``fit(X, y, seed)`` gets rows and their classes and returns a rule; ``rule(X)`` gets new rows. Splitting into
    training and calibration rows is the business of ``fit``. What the rule returns, and the guarantee, by ``claim``:

    - ``"coverage"``: sets, (n, K) booleans, one column for each class in ``np.unique(y)``; P(class in set) ≥ level.
    - ``"class_coverage"``: the same for every class by itself, P(class in set | class) ≥ level.
    - ``"false_alarms"``: flags, (n,) booleans; P(flag | in-distribution) ≤ level.
    - ``"selective_risk"``: answers, (n,) classes and −1 where it abstains; P(wrong | answered) ≤ level.
    - ``"fdr"``: flags of a batch of 50 rows, five of them outliers; E[share of inliers among the flags] ≤ level.
    - ``"ever_alarm"``: alarms on a stream, (n,) booleans in its order; P(any alarm) ≤ level without a change.

    Without ``confidence`` the guarantee is marginal: a rate over draws of fitted and new rows together. With it the
    guarantee is one of the fitted rows: the rate of their rule meets the level in at least that share of draws.

    Intervals are exact for any number of draws, and all of them hold together with probability 0.99, by Bonferroni's
    inequality over attacks, classes and ends. So a guarantee that holds is called broken with probability 0.005 at most.

    - Marginal rates: failures f_i and rows a_i ≥ f_i of a draw, as shares of its new rows, are i.i.d. over draws. For
      the true rate r = E[f] / E[a] the capital K(r) = mean_b Π_i (1 + b (f_i / r − a_i)), 0 < b < 1, has expectation 1,
      since each factor is ≥ 0 and has expectation 1; so P(K(r) ≥ 1/t) ≤ t by Markov's inequality, and the interval is
      of those r with K(r) < 1/t, K falling in r. The other end is that of the successes.
      Reference: Waudby-Smith and Ramdas (2024), Estimating Means of Bounded Random Variables by Betting.
    - Events, of which a draw has one or none (``"ever_alarm"``): Clopper and Pearson.
    - With ``confidence``: a draw surely exceeds the level where as many failures would be seen below it with
      probability η = (1 − confidence)/20 at most. Of draws that do not exceed the level at most a share η looks so, so
      that p = q + η (1 − q) bounds their rate by the share q of draws that exceed the level, and p's lower
      Clopper-Pearson end gives q's. The upper end counts draws that are not surely below the level, likewise.

    Attacks within the assumption leave rows exchangeable; others break that on purpose. A rate above the stated one
    then is reported as "outside the stated assumption": no guarantee is broken. Attacks on optional stopping are left
    out for ``"ever_alarm"``, which is read after every row anyway.

    Parameters
    ----------
    fit : callable
        See above. A draw in which it or its rule raises counts as one without failures, and is reported.
    claim : str
        What is guaranteed.
    level : float
        The rate that is guaranteed.
    confidence : float, optional
        The guarantee's confidence over draws of the fitted rows; not for ``"fdr"`` and ``"ever_alarm"``.
    attacks : sequence of Attack or str
        Attacks of your own, or names of those in ``ATTACKS``; all of those unless set.
    draws : int
        Draws of each attack.
    n_new : int, optional
        New rows of each draw: 500 unless set, 2,000 with a confidence.
    seed : int
        Equal seeds give equal results, for a ``fit`` that draws from its own seed alone.
    n_jobs : int
        Processes, as in joblib.
    progress : bool
        Print a line to stderr as each attack ends.

    Examples
    --------
    A threshold at the 95 % quantile of the fitted rows' own scores forgets the new row, and that its centre is theirs:

    >>> def fit(X, y, seed):
    ...     def score(rows):
    ...         return np.linalg.norm((rows - X.mean(axis=0)) / X.std(axis=0), axis=1)
    ...     return lambda rows: score(rows) > np.quantile(score(X), 0.95)
    >>> found = audit(fit, "false_alarms", 0.05, attacks=["plain", "tiny n", "drift"], draws=100)
    >>> print(found)
    false_alarms ≤ 0.05: broken
    attack  rows  draws  refused  failures  interval        stated  verdict
    plain   200   100    0        0.055     [0.047, 0.065]  0.05    kept
    tiny n  20    100    0        0.128     [0.103, 0.159]  0.05    broken
    drift   200   100    0        0.088     [0.077, 0.102]  0.05    outside the stated assumption
    >>> print(found.script.splitlines()[0])
    # false_alarms ≤ 0.05, attack tiny n: failures 0.128, stated 0.05
    """
    if claim not in _CLAIMS:
        raise InputError(f"claim is {claim!r}; pass one of {', '.join(_CLAIMS)}")
    if confidence is not None and claim in ("fdr", "ever_alarm"):
        raise InputError(f"confidence is {confidence}, but {claim} is a rate over draws; leave it out")
    at_least = claim in ("coverage", "class_coverage")
    rate = float(1 - exact_level(level, "level") if at_least else exact_level(level, "level"))
    delta = None if confidence is None else float(1 - exact_level(confidence, "confidence"))
    n_new = check_count(n_new or (500 if confidence is None else 2000), "n_new", least=50) // 50 * 50
    n_draws, count = check_count(draws, "draws", least=2), _CLAIMS[claim]
    chosen = [_named(attack) for attack in attacks]
    chosen = [attack for attack in chosen if claim != "ever_alarm" or len(attack.sizes) == 1]
    pool, start = Parallel(n_jobs=n_jobs), time.perf_counter()
    outcomes: list[list[Counts | str]] = []
    for number, attack in enumerate(chosen, 1):
        key = [check_seed(seed, "seed"), zlib.crc32(attack.name.encode())]
        call = (fit, attack.sample, count, attack.sizes, n_new)
        outcomes.append(pool(delayed(one_draw)(*call, [*key, draw]) for draw in range(n_draws)))
        if progress:
            seconds = time.perf_counter() - start
            print(f"{attack.name}: attack {number} of {len(chosen)}, {seconds:.0f} s", file=sys.stderr)
    errors = [[counts for counts in found if isinstance(counts, str)] for found in outcomes]
    if all(len(found) == n_draws for found in errors):
        raise InputError(f"fit failed in every draw of every attack, first with {errors[0][0]}; mend it and call again")
    parts = [sorted({part for counts in found if isinstance(counts, dict) for part in counts}) for found in outcomes]
    tail = (1 - FAMILY_CONFIDENCE) / 2 / sum(max(1, len(names)) for names in parts)
    results = []
    for attack, found, refused, names in zip(chosen, outcomes, errors, parts, strict=True):
        for part in names or [""]:
            of_draws = [(0, n_new) if isinstance(c, str) else c.get(part, (0, 0)) for c in found]
            failures, rows = np.array(of_draws, dtype=np.float64).T
            measured, low, high = _interval(claim, failures, rows, n_new, rate, delta, tail)
            counts = (attack.sizes[-1], n_draws, len(refused))
            ends = (measured, low, high, rate if delta is None else delta)
            results.append(AttackResult(attack.name, part, attack.outside, *counts, *ends, (refused or [""])[0]))
    worst = max(results, key=lambda result: (not result.outside, result.low > result.stated, result.measured))
    words = f"{claim} {'≥' if at_least else '≤'} {level:g}"
    words += "" if confidence is None else f" with confidence {confidence:g}"
    attack = next(attack for attack in chosen if attack.name == worst.attack)
    key = [seed, zlib.crc32(attack.name.encode())]
    script = _script(words, worst, attack, fit, count, n_new, key, None if delta is None else rate)
    return Audit(words, tuple(results), worst, script)


def _named(attack: Attack | str) -> Attack:
    for known in ATTACKS:
        if known.name == attack:
            return known
    if isinstance(attack, Attack):
        return attack
    raise InputError(f"attack is {attack!r}; pass an Attack or one of {', '.join(known.name for known in ATTACKS)}")


def _interval(
    claim: str, failures: Floats, rows: Floats, n_new: int, rate: float, delta: float | None, tail: float
) -> tuple[float, float, float]:
    """Return the measured failure rate and the ends of its interval, each wrong with probability ``tail``."""
    n_draws, level = len(rows), 1 - 2 * tail
    if delta is not None:
        surely = delta / 20
        pairs = [(int(f), int(n)) for f, n in zip(failures, rows, strict=True)]
        above = sum(n > 0 and 1 - binomial_cdf(f - 1, n, rate) <= surely for f, n in pairs)
        below = sum(n == 0 or binomial_cdf(f, n, rate) <= surely for f, n in pairs)
        low = (binomial_interval(above, n_draws, level)[0] - surely) / (1 - surely)
        high = binomial_interval(n_draws - below, n_draws, level)[1] / (1 - surely)
        return float(np.mean(failures > rate * rows)), max(0.0, low), min(1.0, high)
    if claim == "ever_alarm":
        return float(np.mean(failures)), *binomial_interval(int(failures.sum()), n_draws, level)
    # A rule that may abstain is judged by its answers as a share of the new rows, another by the rows there are.
    whole = np.full(n_draws, n_new) if claim == "selective_risk" else np.maximum(rows, 1)
    shares, weights = failures / whole, rows / whole
    measured = float(shares.sum() / weights.sum()) if weights.any() else 0.0
    return measured, _lower_end(shares, weights, tail), 1 - _lower_end(weights - shares, weights, tail)


def _lower_end(shares: Floats, weights: Floats, tail: float) -> float:
    """Return the largest rate r with K(r) ≥ 1/tail, by bisection; K is in `audit`."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        logs = np.log1p(_BETS[:, None] * (shares / middle - weights)).sum(axis=1)
        rejected = np.logaddexp.reduce(logs) - np.log(len(_BETS)) >= -np.log(tail)
        low, high = (middle, high) if rejected else (low, middle)
    return low


def _script(
    words: str,
    worst: AttackResult,
    attack: Attack,
    fit: Fit,
    count: Count,
    n_new: int,
    key: list[int],
    rate: float | None,
) -> str:
    """Return a program that repeats an attack and prints its failure rate, or the share of draws above ``rate``."""
    pieces = {"np": "import numpy as np"}
    for function in (one_draw, attack.sample, count):
        _add_source(function, pieces)
    name = "fit"
    if isinstance(fit, FunctionType) and not fit.__closure__ and fit.__name__ not in ("<lambda>", *pieces):
        _add_source(fit, pieces)
        name = fit.__name__
    if not pieces.get(name):
        pieces[name] = f"{name} = ...  # define it here: its source cannot be shown whole"
    imports = [piece for piece in pieces.values() if piece.startswith(("import ", "from "))]
    sources = [piece for piece in pieces.values() if piece not in imports]
    if rate is not None:
        mean = f"np.mean(failures > {rate!r} * rows)"
    else:
        mean = "failures.sum() / rows.sum()" if count is wrong_answers else "np.mean(failures[rows > 0] / rows[rows > 0])"
    arguments = f"{name}, {attack.sample.__name__}, {count.__name__}, {attack.sizes}, {n_new}"
    return f"""# {words}, attack {f"{worst.attack} {worst.part}".rstrip()}: {worst.measured:.3f}, stated {worst.stated:.3g}
from __future__ import annotations

{chr(10).join(imports)}

{chr(10).join(sources)}
draws = [one_draw({arguments}, [{key[0]}, {key[1]}, draw]) for draw in range({worst.n_draws})]
pairs = [(0, {n_new}) if isinstance(counts, str) else counts.get({worst.part!r}, (0, 0)) for counts in draws]
failures, rows = np.array(pairs, dtype=float).T
print("failure rate", round(float({mean}), 3))
"""


def _add_source(function: Any, pieces: dict[str, str]) -> None:
    """Add to ``pieces`` the source of a function, and of every global of its module that it names, by name."""
    pieces[function.__name__] = ""
    for name in _global_names(function.__code__):
        value = function.__globals__.get(name)
        if value is None or name in pieces or name.startswith("__"):
            continue
        if isinstance(value, ModuleType):
            pieces[name] = f"import {value.__name__} as {name}"
        elif isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _add_source(value, pieces)
        elif isinstance(value, int | float | str | tuple):
            pieces[name] = f"{name} = {value!r}"
        else:
            pieces[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
    try:
        pieces[function.__name__] = textwrap.dedent(inspect.getsource(function))
    except OSError:
        del pieces[function.__name__]


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)
