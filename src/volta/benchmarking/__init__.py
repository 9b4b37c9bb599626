"""The benchmark from Python: ``volta.benchmark`` runs one, ``volta.open_run`` reads one; both give a ``Run``."""
