"""One look per method, the same in every figure and on the page: colour first, marker and dash as a second channel."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

# Hues that stay apart under the common colour-vision deficiencies (after Okabe-Ito and Tol), each with a lighter twin
# for dark backgrounds. The first is kept for VOLTA alone.
PALETTE: tuple[tuple[str, str], ...] = (
    ("#d1440c", "#ff8a5c"),
    ("#0072b2", "#5ab4ee"),
    ("#00875f", "#3ecf9f"),
    ("#a3408f", "#e08fd0"),
    ("#b07d00", "#e5b93c"),
    ("#332288", "#a79bf0"),
    ("#3f94bf", "#9bd3f0"),
    ("#7d7a1f", "#c9c65a"),
    ("#882255", "#e0789f"),
    ("#3c8f85", "#7fd1c6"),
    ("#5f6672", "#b4bcc8"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p", "d")
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5, 2),
    (5, 1.5, 1, 1.5),
    (1.2, 1.4),
    (8, 2, 1, 2, 1, 2),
    (3, 1.2),
)

# Append only: a method's place here is its look in every report ever made.
_KNOWN = (
    "volta",
    "softmax",
    "temperature",
    "mc-dropout",
    "swag",
    "energy",
    "mahalanobis",
    "hyperbolic",
    "enn",
    "taylor-sensus",
    "conformal",
    "gmm",
    "linear",
    "ensemble",
    "knn",
    "vim",
    "max-logit",
    "laplace",
    "rmds",
    "vector-scaling",
    "aps",
    "volta-full",
    "volta-full-no-adaptive-temperature",
    "volta-full-no-margin",
    "volta-full-no-reconstruction",
    "volta-full-no-diversity",
    "volta-full-no-contrastive",
    "volta-full-shallow",
    "volta-full-no-mc",
    "volta-full-no-temperature",
    "volta-full-no-posthoc",
    "volta-plus-margin",
    "volta-plus-reconstruction",
    "volta-plus-diversity",
    "volta-plus-contrastive",
    "volta-plus",
    "gen",
    "maxlogit-pnorm",
    "fdbd",
    "nci",
    "neco",
    "nnguide",
    "react",
    "scale",
    "weiper",
    "mds-plus",
    "rmds-plus",
    "sirc",
    "structured-vector-scaling",
    "structured-matrix-scaling",
    "ensemble-temperature",
    "isotonic",
)
_SLOTS = {name: slot for slot, name in enumerate(_KNOWN)}
_N_OTHERS = len(PALETTE) - 1


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn: its place in the palette, colour on white, Matplotlib marker, dash lengths in points."""

    hue: int
    color: str
    marker: str
    dash: tuple[float, ...]

    @property
    def line(self) -> Literal["-"] | tuple[float, tuple[float, ...]]:
        """The dash as a Matplotlib line style."""
        return (0, self.dash) if self.dash else "-"


def style_of(method: str) -> MethodStyle:
    """Return the look of a method by name; names not seen before get one from a hash of the name."""
    name = method.replace("_", "-").lower()
    slot = _SLOTS.get(name)
    if slot is None:
        slot = len(_KNOWN) + int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 480
    if slot == 0:
        return _make(0, 0, 0)
    return _make(1 + (slot - 1) % _N_OTHERS, (slot - 1) // _N_OTHERS, slot)


def _make(hue: int, turn: int, slot: int) -> MethodStyle:
    return MethodStyle(hue, PALETTE[hue][0], MARKERS[(slot + turn) % len(MARKERS)], DASHES[turn % len(DASHES)])
