"""Imported by the server that workers are forked from, before all else: it ends with the process that started it.

By itself the server notices that end only between its imports, and then takes seconds to leave them in good order.
"""

import os
import sys
import warnings
from multiprocessing import forkserver

from volta.core.processes import end_with_parent, settle

STARTED_BY = "VOLTA_SERVER_STARTED_BY"
"""The variable that names the process that starts a server: it may be gone before the server asks for its parent."""

if getattr(sys.modules["__main__"], "main", None) is forkserver.main:
    settle()
    starter = os.environ.get(STARTED_BY, "")
    end_with_parent(int(starter) if starter.isdigit() else None)
    # The process that starts it has said which metrics cannot be loaded.
    warnings.filterwarnings("ignore", ".*; the metric is left out")
