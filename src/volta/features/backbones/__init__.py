"""Backbones: frozen networks from images to feature rows; one file each, one table."""
