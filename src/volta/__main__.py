"""``python -m volta``."""

from volta.cli.process import run

if __name__ == "__main__":
    run()
