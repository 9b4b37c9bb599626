"""The published image sets that tasks are made of, each with its archive and what can stand in for it."""
