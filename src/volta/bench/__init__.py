"""Plan cells, run what is missing, store what is finished."""
