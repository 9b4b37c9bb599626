"""Statistics from stored records alone: no torch, nothing is re-run."""
