"""Methods of one's own on the command line: modules of the folder that a command is run in."""

from __future__ import annotations

import os
import sys


def import_from_here() -> None:
    """Let ``module:Class`` name a module of the folder that the command is run in."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
