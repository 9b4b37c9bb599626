"""The tutorial's live page: fits a model from a CSV, serves it, sends it samples that change, takes its picture.

``python tools/serve_picture.py`` writes ``docs/pictures/live-page.png`` and prints what the tutorial shows.
Needs Debian's ``chromium``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "live-page.png"
WIDTH, HEIGHT = 1100, 1120
MOST_BYTES = 200_000
COLOURS = 128
VOLTA = [sys.executable, "-c", "from volta.cli import main; main()"]


def main() -> None:
    """Run the tutorial's commands in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        header, fit, live = write_tables(folder)
        model = folder / "model.safetensors"
        command = [*VOLTA, "fit", str(fit), "--label", "benign", "--out", str(model), "--max-error", "0.1", "--quiet"]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        service = subprocess.Popen([*VOLTA, "serve", str(model), "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            assert service.stdout is not None
            line = service.stdout.readline()
            print(line)
            send(line.split(" at ")[1].split()[0], header, live)
            photograph(line.split(" at ")[1].split()[0], folder)
        finally:
            service.terminate()
            service.wait()


def write_tables(folder: Path) -> tuple[list[str], Path, np.ndarray]:
    """Write the samples to fit on as a CSV; return the columns, the file and the others with their labels."""
    data = load_breast_cancer()
    table = np.c_[data.data, data.target][np.random.default_rng(0).permutation(len(data.target))]
    header = [*data.feature_names.tolist(), "benign"]
    path = folder / "cancer.csv"
    np.savetxt(path, table[:400], fmt="%.10g", delimiter=",", header=",".join(header), comments="")
    return header, path, table[400:]


def send(address: str, header: list[str], live: np.ndarray) -> None:
    """Send samples as they are with their labels, then the same with one column in other units."""
    shown = False
    for scale in (1.0, 1.6):
        rows = live.copy()
        rows[:, header.index("mean texture")] *= scale
        for row in rows.tolist():
            sample = dict(zip(header[:-1], row[:-1], strict=True))
            (decision,) = post(f"{address}/decide", {"rows": [sample]})["decisions"]
            answer = post(f"{address}/feedback", {"feedback": [{"id": decision["id"], "label": int(row[-1])}]})
            if not shown:
                print(json.dumps(decision, indent=1), json.dumps(answer), sep="\n")
                shown = True
    time.sleep(1)
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        print("\n".join(line for line in answer.read().decode().splitlines() if line.startswith("volta_rows_total")))


def post(address: str, body: object) -> dict:
    """Return the JSON answer to a JSON request."""
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def photograph(address: str, folder: Path) -> None:
    """Store the page with few colours."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("chromium is not installed; apt-get install chromium")
    shot = folder / "shot.png"
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", f"--user-data-dir={folder}/profile"]
    options += [f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=5000", f"--screenshot={shot}"]
    subprocess.run([browser, *options, address], check=True, capture_output=True, timeout=120)
    with Image.open(shot) as image:
        image.convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    if PICTURE.stat().st_size > MOST_BYTES:
        sys.exit(f"{PICTURE} has {PICTURE.stat().st_size} bytes; at most {MOST_BYTES} are wanted")
    print(f"{PICTURE.name}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
