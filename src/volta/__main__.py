"""``python -m volta``."""

from volta.cli import main

if __name__ == "__main__":
    main()
