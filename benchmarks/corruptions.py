"""Seconds per corruption for n images in one process; see --help."""

from __future__ import annotations

import argparse
import platform
import time

import numpy as np
from scipy.ndimage import gaussian_filter

from volta.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt


def smooth_images(n_images: int, side: int) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((n_images, side, side, 3))
    fields = gaussian_filter(noise, (0, side / 16, side / 16, 0), mode="wrap")
    fields /= fields.std()
    return np.clip(128 + 50 * fields, 0, 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000, help="number of images")
    parser.add_argument("--side", type=int, default=32, help="height and width in pixels")
    parser.add_argument("--severity", type=int, default=1, choices=SEVERITIES)
    arguments = parser.parse_args()
    images = smooth_images(arguments.n, arguments.side)
    print(
        f"n = {arguments.n} images of {arguments.side}×{arguments.side}, severity {arguments.severity},"
        f" {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    total = 0.0
    for name in CORRUPTIONS:
        start = time.perf_counter()
        corrupt(images, name, arguments.severity)
        seconds = time.perf_counter() - start
        total += seconds
        print(f"{name:20s} {seconds:7.2f} s", flush=True)
    print(f"{'all ' + str(len(CORRUPTIONS)):20s} {total:7.2f} s")


if __name__ == "__main__":
    main()
