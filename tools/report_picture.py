"""The picture of a report's first screen, for the documentation: ``python tools/report_picture.py RUN``.

RUN is the folder of any run with a ``report.html``. Needs Debian's ``chromium``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "reduced-report.png"
WIDTH, HEIGHT = 1200, 900
MOST_BYTES = 300_000
COLOURS = 128


def main(run: Path) -> None:
    """Photograph the report's first screen and store it with few colours."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("chromium is not installed; apt-get install chromium")
    page = (run / "report.html").resolve()
    with tempfile.TemporaryDirectory() as name:
        shot = Path(name) / "shot.png"
        options = [
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--disable-gpu",
            f"--user-data-dir={name}/profile",
        ]
        options += [f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=5000", f"--screenshot={shot}"]
        subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
        with Image.open(shot) as image:
            image.convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    if PICTURE.stat().st_size > MOST_BYTES:
        sys.exit(f"{PICTURE} has {PICTURE.stat().st_size} bytes; at most {MOST_BYTES} are wanted")
    print(f"{PICTURE}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
