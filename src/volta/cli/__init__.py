"""The shell's door: one module per group of commands."""

from volta.cli.main import main

__all__ = ["main"]
