"""Promises in plain sentences."""

from __future__ import annotations

from typing import Any

from volta.decisions.policies import Policy

MOST_VALUES = 5

LIMITS = (
    "Every promise is for new rows that come as the calibration rows did. When the world, the instrument or the choice "
    "of rows changes, none of them holds; the classifier's monitor, fed with the stream, tells when that happens.",
    "Promises hold on average over rows, not for a single row, and not within a group of rows that is picked later; "
    'sets and flags within every class need conditional="class", in Python.',
    "An OOD flag says that a row is unlike the calibration rows, not why. How many OOD rows are found is not promised: "
    "rows unlike others in ways that neither the network nor the range of columns shows go through.",
    "Probabilities are calibrated as measured here, on average; that is no guarantee, and least where few rows lie.",
    "The classes are those of the training rows. A row of any other class gets one of them, unless it is flagged.",
    "Hashes tell whether files are the same; they are no signature, and nothing here says that the labels were right.",
)
"""What is not guaranteed, whatever the model."""


def percent(share: float) -> str:
    """Return a share in percent, with three figures at most.

    >>> percent(0.9), percent(0.0213), percent(1.0)
    ('90 %', '2.13 %', '100 %')
    """
    return f"{100 * share:.3g} %"


def parameter_words(value: Any) -> str:
    """Return a method's parameter in words: of a long list of numbers how many there are, and its ends.

    >>> parameter_words((1.0, 0.3, 0.1, 0.03, 0.01, 0.003)), parameter_words(10)
    ('6 values from 1 to 0.003', '10')
    """
    if isinstance(value, tuple) and len(value) > MOST_VALUES:
        return f"{len(value)} values from {value[0]:.3g} to {value[-1]:.3g}"
    return str(value)


def loss_words(n_folds: int, solved: bool) -> tuple[str, str]:
    """Return what the losses of networks are called, and of which rows they are.

    ``solved``: the method finds its weights without epochs, and has one loss, over all folds.
    """
    if not n_folds:
        return "validation loss", "those of the validation rows"
    if solved:
        return "validation loss", "those of each row by a fit without its fold"
    return (
        "loss",
        "training losses of a network that is kept, of its own rows, and of a fold's network those of rows left out",
    )


def policy_sentence(policy: Policy) -> str:
    """Return what a policy promises and what it costs, with the number of rows it rests on."""
    if not policy.exists:
        return f"no row is answered: {policy.note}"
    within = f"{percent(policy.coverage_low)} to {percent(policy.coverage_high)}"
    if policy.max_error is None:
        note = f" ({policy.note})" if policy.note else ""
        return (
            f"{percent(policy.coverage)} of rows are answered on average, {within} with confidence "
            f"{percent(policy.confidence)}, from {policy.n} calibration rows; nothing is promised of the error{note}"
        )
    return (
        f"with confidence {percent(policy.confidence)} at most {percent(policy.max_error)} of answered rows are wrong; "
        f"about {percent(policy.coverage)} of rows are answered ({within}), from {policy.n} calibration rows, "
        f"{policy.n_answered} of them answered, {policy.n_errors} wrong"
    )
