"""A page in a real headless browser: run a script in it after it has loaded, get back what the script returns.

No driver and no protocol client: the script is put into a copy of the page, and the browser prints the page's DOM.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)

_BEFORE = """<script>
window.problems = [];
window.addEventListener("error", (event) => window.problems.push(String(event.message || event.type)), true);
window.addEventListener("unhandledrejection", (event) => window.problems.push(String(event.reason)));
for (const kind of ["error", "warn"]) {
  const own = console[kind];
  console[kind] = (...words) => { window.problems.push(words.join(" ")); own.apply(console, words); };
}
window.requests = [];
new PerformanceObserver((list) => window.requests.push(...list.getEntries().map((entry) => entry.name)))
  .observe({ type: "resource", buffered: true });
%s
</script>"""
_AFTER = """<script>
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const resize = async (width) => { parent.postMessage({ width }, "*"); while (innerWidth !== width) await pause(20); await pause(100); };
(async () => {
  let answer;
  try { answer = { value: await (async () => { %s })() }; } catch (error) { answer = { failure: String(error) }; }
  answer.problems = window.problems;
  answer.requests = window.requests;
  parent.postMessage(JSON.stringify(answer), "*");
})();
</script>"""
N_TRIES = 3
# A headless window is never narrower than 500 px, a frame in it can be.
_FRAME = """<!doctype html><body style="margin:0">
<iframe src="%s" style="border:0;width:%dpx;height:%dpx"></iframe>
<script>window.addEventListener("message", (event) => {
  if (event.data.width) { document.querySelector("iframe").style.width = `${event.data.width}px`; return; }
  const note = document.createElement("script");
  note.type = "application/json";
  note.id = "answer";
  note.textContent = encodeURIComponent(event.data);
  document.body.append(note);
});</script>"""


def find_browser() -> str:
    """Return a Chromium, or skip the test with the reason."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    pytest.skip(f"no browser found (looked for {', '.join(NAMES)})")


def run_page(
    page: Path, script: str, folder: Path, *, width: int = 1280, theme: str = "light", flags: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Load a copy of the page, run ``script`` (it may await and return), give back its value, problems and requests.

    The script may call ``await pause(ms)``, and ``await resize(width)`` to be shown at another width.
    """
    framed = _framed(page, folder, _AFTER % script, (width, 900), theme)
    for _ in range(N_TRIES):  # a loaded machine may end the browser's budget before the page has answered
        output = _browse(framed, folder, ("--dump-dom", *flags), (width, 900))
        found = re.search(r'<script type="application/json" id="answer">([^<]*)</script>', output)
        if found:
            break
    assert found, output[-2000:]
    answer: dict[str, Any] = json.loads(unquote(html.unescape(found.group(1))))
    assert "failure" not in answer, answer["failure"]
    return answer


def take_picture(page: Path, picture: Path, folder: Path, *, width: int, height: int, theme: str) -> None:
    """Save a screenshot of the top of the page."""
    framed = _framed(page, folder, "", (width, height), theme)
    _browse(framed, folder, (f"--screenshot={picture}",), (width, height))


def _framed(page: Path, folder: Path, script: str, size: tuple[int, int], theme: str) -> Path:
    before = _BEFORE % f'try {{ localStorage.setItem("volta-theme", "{theme}") }} catch {{ }}'
    text = page.read_text(encoding="utf-8").replace("<head>", f"<head>{before}", 1)
    (folder / "copy.html").write_text(text.replace("</body>", f"{script}</body>"), encoding="utf-8")
    frame = folder / "frame.html"
    frame.write_text(_FRAME % ("copy.html", *size), encoding="utf-8")
    return frame


def _browse(page: Path, folder: Path, flags: tuple[str, ...], size: tuple[int, int]) -> str:
    profile = folder / "profile"
    window = f"--window-size={max(500, size[0])},{size[1]}"
    command = [find_browser(), *FLAGS, f"--user-data-dir={profile}", "--virtual-time-budget=8000", window, *flags]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=180, check=False)
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
