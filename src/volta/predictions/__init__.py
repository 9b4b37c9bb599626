"""Predictions from anywhere, as arrays: metrics with intervals, plots, comparisons and a report."""
