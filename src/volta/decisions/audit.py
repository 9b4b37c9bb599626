"""Crash tests of guarantees: any rule with a stated rate, on rows made to break it."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
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
    from scipy.signal import lfilter

    y = rng.integers(3, size=n_rows + n_new)
    steps = np.sqrt(1 - 0.9**2) * rng.normal(size=(len(y), 4))
    steps[0] /= np.sqrt(1 - 0.9**2)
    return lfilter([1.0], [1.0, -0.9], steps, axis=0) + 1.5 * np.eye(3, 4)[y], y


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


def missed_by_class(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Count rows whose class is not in their set, of each class; rows of classes that were not fitted do not count."""
    sets, names = np.asarray(rule(x)).astype(bool), classes.tolist()
    return {f"class {k}": (int((~sets[y == k, j]).sum()), int((y == k).sum())) for j, k in enumerate(names)}


def missed(rule: Rule, x: Array, y: Array, classes: Array) -> Counts:
    """Count rows whose class is not in their set."""
    failures, rows = np.sum(list(missed_by_class(rule, x, y, classes).values()), axis=0)
    return {"": (int(failures), int(rows))}


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


def one_draw(fit: Fit, sample: Sample, count: Count, sizes: Sequence[int], n_new: int, seed: list[int]) -> Counts | str:
    """Draw rows, fit a rule, and count its failures on new rows; or return why the rule raised."""
    rng, n_rows = np.random.default_rng(seed), sizes[-1]
    x, y = sample(rng, n_rows, n_new)
    fit_seed = int(rng.integers(2**31))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rules, appeals = [fit(x[:size], y[:size], fit_seed) for size in sizes], [0.0]
            if len(rules) > 1:
                said = [np.asarray(rule(x[:n_rows])) for rule in rules]
                said = [s >= 0 if s.dtype.kind in "iu" else s for s in said]
                appeals = [float(-s.mean() if s.ndim == 2 else s.mean()) for s in said]
            best = int(np.argmax(appeals))
            return count(rules[best], x[n_rows:], y[n_rows:], np.unique(y[: sizes[best]]))
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
    error: str
    stated: float
    measured: float
    low: float
    high: float

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
            counts = (f"{r.attack} {r.part}".rstrip(), str(r.n_rows), str(r.n_draws), str(r.refused))
            rows.append((*counts, f"{r.measured:.3f}", f"[{r.low:.3f}, {r.high:.3f}]", f"{r.stated:.3g}", r.verdict))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        errors = sorted({f"refused: {r.error}" for r in self.results if r.error})
        return "\n".join([f"{self.claim}: {self.verdict}", *lines, *errors])


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

    ``fit(X, y, seed)`` gets rows and their classes, splits them as it likes, and returns a rule; ``rule(X)`` gets new
    rows. What the rule returns, and what is guaranteed, by ``claim``:

    - ``"coverage"``: sets, (n, K) booleans, one column for each class in ``np.unique(y)``; P(class in set) ≥ level.
    - ``"class_coverage"``: the same for every class by itself, P(class in set | class) ≥ level.
    - ``"false_alarms"``: flags, (n,) booleans; P(flag | in-distribution) ≤ level.
    - ``"selective_risk"``: answers, (n,) classes and −1 where it abstains; P(wrong | answered) ≤ level.
    - ``"fdr"``: flags of a batch of 50 rows, five of them outliers; E[share of inliers among the flags] ≤ level.
    - ``"ever_alarm"``: alarms on a stream, (n,) booleans in its order; P(any alarm) ≤ level without a change.

    Without ``confidence`` rates are over draws of fitted and new rows together; with it the rate given the fitted rows
    meets the level in at least that share of draws. Attacks within the assumption leave all rows exchangeable; a rate
    above the stated one under another attack is "outside the stated assumption", and no guarantee is broken.

    All intervals of an audit hold together with probability 0.99 for any number of draws, by Bonferroni's inequality;
    so a guarantee that holds is called broken with probability 0.005 at most.

    - Rates: failures f_i and rows a_i ≥ f_i of a draw, as shares of its new rows, are i.i.d. over draws. For the true
      rate r = E[f] / E[a] the capital K(r) = mean_b Π_i (1 + b (f_i / r − a_i)), 0 < b < 1, is a mean of products of
      factors ≥ 0 with expectation 1, so that P(K(r) ≥ 1/t) ≤ t by Markov's inequality. The interval holds the r with
      K(r) < 1/t; its other end is that of the successes.
      Reference: Waudby-Smith and Ramdas (2024), Estimating Means of Bounded Random Variables by Betting.
    - ``"ever_alarm"``, an event that a draw has or not: Clopper and Pearson.
    - With ``confidence``: a draw is surely above the level if a rate at the level shows as many failures with
      probability η = (1 − confidence)/20 at most. Where a share q of draws exceeds the level, at most q + η (1 − q)
      surely do, and the lower Clopper-Pearson end of that share gives q's; draws not surely below give the upper.

    Parameters
    ----------
    fit : callable
        See above. A draw in which it or its rule raises counts as one without failures, and is reported.
    claim : str
        What is guaranteed.
    level, confidence : float
        The rate that is guaranteed; with a confidence unless ``claim`` is ``"fdr"`` or ``"ever_alarm"``.
    attacks : sequence of Attack or str
        Attacks of your own, or names of those in ``ATTACKS``. ``"ever_alarm"`` leaves those with several sizes out.
    draws, n_new : int
        Draws of each attack, and new rows of each draw, a multiple of 50: 500 unless set, 20,000 with a confidence.
    seed, n_jobs : int
        Equal seeds give equal results, for a ``fit`` that draws from its own seed alone; processes as in joblib.
    progress : bool
        Print a line to stderr as each attack ends.

    Examples
    --------
    A quantile of the fitted rows' own scores, which knows neither new rows nor that its centre is the fitted rows':

    >>> def fit(X, y, seed):
    ...     def score(rows):
    ...         return np.linalg.norm((rows - X.mean(axis=0)) / X.std(axis=0), axis=1)
    ...     return lambda rows: score(rows) > np.quantile(score(X), 0.9)
    >>> found = audit(fit, "false_alarms", 0.1, attacks=["plain", "imbalance 1:100", "tiny n", "drift"])
    >>> print(found)
    false_alarms ≤ 0.1: broken
    attack           rows  draws  refused  failures  interval        stated  verdict
    plain            200   200    0        0.112     [0.104, 0.152]  0.1     broken
    imbalance 1:100  1000  200    0        0.102     [0.096, 0.142]  0.1     kept
    tiny n           20    200    0        0.216     [0.190, 0.256]  0.1     broken
    drift            200   200    0        0.165     [0.154, 0.203]  0.1     outside the stated assumption
    >>> print(found.script.splitlines()[0])
    # false_alarms ≤ 0.1, tiny n: measured 0.216, stated 0.1
    """
    if claim not in _CLAIMS:
        raise InputError(f"claim is {claim!r}; pass one of {', '.join(_CLAIMS)}")
    if confidence is not None and claim in ("fdr", "ever_alarm"):
        raise InputError(f"confidence is {confidence}, but {claim} is a rate over draws; leave it out")
    at_least = claim in ("coverage", "class_coverage")
    rate = float(1 - exact_level(level, "level") if at_least else exact_level(level, "level"))
    delta = None if confidence is None else float(1 - exact_level(confidence, "confidence"))
    n_new = check_count(n_new or (500 if confidence is None else 20_000), "n_new", least=50) // 50 * 50
    known = {attack.name: attack for attack in ATTACKS}
    if unknown := [attack for attack in attacks if not isinstance(attack, Attack) and attack not in known]:
        raise InputError(f"attack is {unknown[0]!r}; pass an Attack or one of {', '.join(known)}")
    chosen = [attack if isinstance(attack, Attack) else known[attack] for attack in attacks]
    chosen = [attack for attack in chosen if claim != "ever_alarm" or len(attack.sizes) == 1]
    if not chosen:
        raise InputError(f"attacks is {list(attacks)}, of which none fits {claim}; pass at least one that does")
    count, n_draws, outcomes = _CLAIMS[claim], check_count(draws, "draws", least=2), []
    keys = [[check_seed(seed, "seed"), zlib.crc32(attack.name.encode())] for attack in chosen]
    calls = [(fit, attack.sample, count, attack.sizes, n_new) for attack in chosen]
    start = time.perf_counter()
    for number, (attack, call, key) in enumerate(zip(chosen, calls, keys, strict=True), 1):
        outcomes.append(Parallel(n_jobs=n_jobs)(delayed(one_draw)(*call, [*key, draw]) for draw in range(n_draws)))
        if progress:
            seconds = time.perf_counter() - start
            print(f"{attack.name}: attack {number} of {len(chosen)}, {seconds:.0f} s", file=sys.stderr)
    parts = [sorted({part for c in found if not isinstance(c, str) for part in c}) or [""] for found in outcomes]
    tail = (1 - FAMILY_CONFIDENCE) / 2 / sum(map(len, parts))
    results = []
    for attack, found, names in zip(chosen, outcomes, parts, strict=True):
        errors = [c for c in found if isinstance(c, str)]
        told = (attack.outside, attack.sizes[-1], n_draws, len(errors), (errors or [""])[0])
        for part in names:
            of_draws = [(0, n_new) if isinstance(c, str) else c.get(part, (0, 0)) for c in found]
            failures, rows = np.array(of_draws, dtype=np.float64).T
            ends = _interval(claim, failures, rows, n_new, rate, delta, tail)
            results.append(AttackResult(attack.name, part, *told, rate if delta is None else delta, *ends))
    worst = max(results, key=lambda result: (not result.outside, result.low > result.stated, result.measured))
    words = f"{claim} {'≥' if at_least else '≤'} {level:g}"
    words += "" if confidence is None else f" with confidence {confidence:g}"
    number = [attack.name for attack in chosen].index(worst.attack)
    script = _script(words, worst, calls[number], keys[number], None if delta is None else rate)
    return Audit(words, tuple(results), worst, script)


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


def _script(words: str, worst: AttackResult, call: tuple[Any, ...], key: list[int], rate: float | None) -> str:
    """Return a program that repeats an attack and prints its failure rate, or the share of draws above ``rate``."""
    fit, sample, count, sizes, n_new = call
    pieces = {"np": "import numpy as np"}
    parts = {"one_draw": one_draw, "count": count, "sample": sample, "fit": fit}
    names = {part: _show(function, part, pieces) for part, function in parts.items()}
    imports = [piece for piece in pieces.values() if piece.startswith(("import ", "from "))]
    sources = [piece for piece in pieces.values() if piece not in imports]
    mean = "failures.sum() / rows.sum()" if count is wrong_answers else "np.mean(failures[rows > 0] / rows[rows > 0])"
    mean = mean if rate is None else f"np.mean(failures > {rate!r} * rows)"
    title = f"{words}, {worst.attack} {worst.part}".rstrip()
    return f"""# {title}: measured {worst.measured:.3f}, stated {worst.stated:.3g}
from __future__ import annotations

{chr(10).join(imports)}

{chr(10).join(sources)}
call = ({names["fit"]}, {names["sample"]}, {names["count"]}, {sizes}, {n_new})
draws = [one_draw(*call, [{key[0]}, {key[1]}, draw]) for draw in range({worst.n_draws})]
pairs = [(0, {n_new}) if isinstance(counts, str) else counts.get({worst.part!r}, (0, 0)) for counts in draws]
failures, rows = np.array(pairs, dtype=float).T
print("failure rate", round(float({mean}), 3))
"""


def _show(function: Any, part: str, pieces: dict[str, str]) -> str:
    """Add to ``pieces`` all that a function is made of; return its name, or ``part`` where it cannot be shown."""
    own: dict[str, str] = {}
    if isinstance(function, FunctionType) and not function.__closure__:
        _add_source(function, own)
    name = getattr(function, "__name__", part)
    if own.get(name, "").startswith(("def ", "@")) and all(pieces.get(key, own[key]) == own[key] for key in own):
        pieces.update(own)
        return name
    pieces[part] = f"{part} = ...  # define it here: its source cannot be shown whole"
    return part


def _add_source(function: Any, pieces: dict[str, str]) -> None:
    """Add to ``pieces`` the source of a function, and of the globals of its module that it names, each by its name."""
    try:
        source = pieces[function.__name__] = textwrap.dedent(inspect.getsource(function))
    except OSError:
        return
    for name in sorted(set(re.findall(r"\b[a-zA-Z]\w*", source)) - set(pieces)):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            pieces[name] = f"import {value.__name__} as {name}"
        elif isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _add_source(value, pieces)
        elif isinstance(value, FunctionType | type):
            pieces[name] = f"from {value.__module__} import {value.__qualname__} as {name}"
        elif isinstance(value, int | float | str | tuple):
            pieces[name] = f"{name} = {value!r}"
