"""Trainable torch modules and the one training loop."""
