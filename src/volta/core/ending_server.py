"""Imported by the server that workers are forked from, before all else: it ends with the process that started it.

By itself the server notices that end only between its imports, and then takes seconds to leave them in good order.
"""

import sys
from multiprocessing import forkserver

from volta.core.parent_death import end_with_parent

if getattr(sys.modules["__main__"], "main", None) is forkserver.main:
    end_with_parent()
