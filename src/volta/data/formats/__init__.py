"""Readers, one per file format: CIFAR's binaries, MATLAB, archives of images, arrays with labels, feature files."""
