"""Tables, figures and one HTML page from a run folder alone."""

from volta.report.build import build_report

__all__ = ["build_report"]
