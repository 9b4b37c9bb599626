"""Warnings that point at the user's own line, however deep in the package they arise."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside the package that led here."""
    level, frame = 1, sys._getframe()
    while (caller := frame.f_back) is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, caller
    warnings.warn(message, category, stacklevel=level)
