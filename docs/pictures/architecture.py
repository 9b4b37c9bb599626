"""Write docs/pictures/volta.svg, what VOLTA computes, and packages.svg, the layers of its packages.

Run with: python docs/pictures/architecture.py
"""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

INK, LINE, FROZEN, LEARNT, FITTED = "#22262b", "#8a8577", "#e8e4da", "#d5e3f0", "#f3dfc1"
WIDTH, HEIGHT = 960, 330


def box(x: int, y: int, width: int, height: int, fill: str, *lines: str) -> str:
    """Return a box with centred lines of text, the first in bold."""
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{LINE}"/>']
    start = y + height / 2 - 8.5 * (len(lines) - 1) + 4.5
    for index, line in enumerate(lines):
        weight = ' font-weight="bold"' if index == 0 else ""
        parts.append(
            f'<text x="{x + width / 2:g}" y="{start + 17 * index:g}" text-anchor="middle"{weight}>{escape(line)}</text>'
        )
    return "".join(parts)


def arrow(*points: tuple[int, int], label: str = "") -> str:
    """Return a line with a head through some points, with a label above its start."""
    path = " L".join(f"{x} {y}" for x, y in points)
    found = f'<path d="M{path}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#head)"/>'
    if label:
        (x, y), (x1, _) = points[:2]
        found += (
            f'<text x="{(x + x1) / 2:g}" y="{y - 7}" text-anchor="middle" font-style="italic">{escape(label)}</text>'
        )
    return found


def drawing() -> str:
    """Return the whole figure as SVG."""
    parts = [
        box(10, 100, 120, 70, FROZEN, "image", "or a sample of a table"),
        box(170, 100, 130, 70, FROZEN, "backbone f", "ResNet-18, frozen", "(none for tables)"),
        box(345, 90, 165, 90, LEARNT, "encoder g", "512 → 512 → 256", "LayerNorm, GELU, dropout", "+ linear residual"),
        box(560, 100, 130, 70, FROZEN, "unit sphere", "z = g(h) / |g(h)|"),
        box(560, 220, 130, 70, LEARNT, "prototypes", "K unit vectors p", "p = p̃ / |p̃|"),
        box(735, 100, 80, 70, FROZEN, "cosines", "s = z·p"),
        box(850, 20, 100, 80, FITTED, "probabilities", "softmax(s / τ)", "τ learned, then", "refitted"),
        box(850, 160, 100, 80, FROZEN, "uncertainty", "1 − max softmax", "(s / τ_unc)", "τ_unc = 0.1"),
        arrow((130, 135), (168, 135)),
        arrow((300, 135), (343, 135), label="h"),
        arrow((510, 135), (558, 135)),
        arrow((690, 135), (733, 135), label="z"),
        arrow((690, 255), (775, 255), (775, 172)),
        arrow((815, 120), (832, 120), (832, 60), (848, 60)),
        arrow((815, 150), (832, 150), (832, 200), (848, 200)),
        box(10, 285, 22, 16, FROZEN), '<text x="40" y="298">fixed</text>',
        box(100, 285, 22, 16, LEARNT), '<text x="130" y="298">learned by cross-entropy alone</text>',
        box(345, 285, 22, 16, FITTED), '<text x="375" y="298">refitted on validation samples</text>',
    ]  # fmt: skip
    return framed("Architecture of VOLTA", WIDTH, HEIGHT, parts)


def packages() -> str:
    """Return the layers that import-linter checks, from top to bottom: a package imports from below alone."""
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    wide, high, gap, width = 110, 28, 18, 420
    parts = []
    for row, layer in enumerate(layers):
        names = [name.strip().removeprefix("volta.") for name in layer.split("|")]
        start, y = (width - len(names) * (wide + 12) + 12) // 2, 10 + row * (high + gap)
        parts += [box(start + column * (wide + 12), y, wide, high, FROZEN, name) for column, name in enumerate(names)]
        if row:
            parts.append(arrow((width // 2, y - gap + 1), (width // 2, y - 2)))
    return framed("Packages of VOLTA", width, 10 + len(layers) * (high + gap), parts)


def framed(label: str, width: int, height: int, parts: list[str]) -> str:
    """Return shapes as one SVG figure."""
    head = '<marker id="head" markerWidth="9" markerHeight="9" refX="7" refY="4" orient="auto">'
    head += f'<path d="M0 0 L8 4 L0 8 z" fill="{LINE}"/></marker>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}" role="img" aria-label="{label}">'
        f'<rect width="{width}" height="{height}" fill="#fbfaf8"/><defs>{head}</defs>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    (Path(__file__).parent / "volta.svg").write_text(drawing(), encoding="utf-8")
    (Path(__file__).parent / "packages.svg").write_text(packages(), encoding="utf-8")
