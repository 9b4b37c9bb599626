"""The page's layout in a real browser, at three widths and in both themes: boxes, widths, contrast."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from volta.bench.cell_metrics import TEST
from volta.bench.records import EXTERNAL
from volta.data import CORRUPTION_NAMES
from volta.networks.recipe import Budget
from volta.report.build import make_page, read_groups
from volta.report.run import load_run
from volta.report.statistics import compute_statistics

from .browser import run_page
from .synthetic import FULL, Plan, write_run

WIDTHS = (390, 900, 1400)
MANY = replace(FULL, methods=FULL.methods[:22], n_rows=60, seeds=(1, 2), shifts=("fog-1", "fog-3"))
PIXELS = Plan(
    tasks=("cifar10",),
    methods=(
        ("volta", "VOLTA", "volta"), ("temperature", "Temperature scaling", "paper"), ("energy", "Energy", "paper"),
        ("knn", "kNN", "extra"), ("mahalanobis", "Mahalanobis", "paper"),
    ),
    n_classes=10, ood=("cifar100", "svhn", "uniform_noise"), shifts=tuple(f"{name}-1" for name in CORRUPTION_NAMES),
    budget=Budget(max_epochs=2, limit_train=4000), backbone="efficientnet-lite0", variants=True, n_rows=60, seeds=(1, 2),
)  # fmt: skip
OWN_DATA = Plan(
    tasks=("photos-of-a-holiday",), n_rows=80, ood=("elsewhere",), shifts=(), variants=True,
    missing=frozenset({("softmax", 42)}), failed=frozenset({("temperature", 123)}),
)  # fmt: skip
CLASSES = Plan(n_classes=200, n_rows=220, seeds=(1, 2), shifts=())
BROUGHT = Plan(
    tasks=("my-predictions",), protocols=(EXTERNAL,), methods=(("a", "A model with quite a long name", EXTERNAL), ("b", "B", EXTERNAL)),
    seeds=(0,), ood=(), shifts=(),
)  # fmt: skip

LAYOUT = """
const layout = (boxes) => {
const seen = (node) => { const box = node.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
const short = (node) => `${node.tagName}.${node.getAttribute("class") || ""} ${node.textContent.trim().slice(0, 40)}`;
const meet = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) *
  Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
const overlaps = [];
const compare = (nodes, share) => nodes.forEach((node, i) => nodes.slice(i + 1).forEach((other) => {
  const [a, b] = [node.getBoundingClientRect(), other.getBoundingClientRect()];
  if (meet(a, b) > share * Math.min(a.width * a.height, b.width * b.height) + 1)
    overlaps.push(`${short(node)} | ${short(other)}`);
}));
document.querySelectorAll("details.more").forEach((node) => { node.open = true; });
if (boxes) for (const parent of document.querySelectorAll("section.group, .charts, .lab, .tools, .saves, .top, .top nav"))
  compare([...parent.children].filter(seen), 0);
if (boxes) for (const plot of document.querySelectorAll(".plot svg"))
  compare([...plot.querySelectorAll("text")].filter((node) => !node.closest("[transform*=rotate]")), 0.25);

const scrolls = (node) => node.closest(".scroll, .plot, pre, nav, .skip");
const wide = [...document.querySelectorAll("body *")].filter((node) => seen(node) && !scrolls(node) &&
  !node.closest("script") && node.getBoundingClientRect().right > innerWidth + 1).map(short);

const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
const rgba = (words) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = words;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = (top, below, opacity = 1) => {
  const a = top[3] * opacity;
  return [...top.slice(0, 3).map((v, i) => v * a + below[i] * (1 - a)), 1];
};
const backOf = (node) => {
  const own = node ? rgba(getComputedStyle(node).backgroundColor) : [255, 255, 255, 1];
  return own[3] > 0.99 ? own : over(own, backOf(node.parentElement));
};
const light = (color) => {
  const [r, g, b] = color.slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const faint = new Map();
const judge = (node, color, back) => {
  const found = contrast(over(color, back), back);
  if (found < 4.5) faint.set(`${node.tagName}.${node.getAttribute("class") || ""}`, `${found.toFixed(2)} ${short(node)}`);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || node.closest("svg, script, style, [hidden], .off, .joined, select, .skip") || !seen(node)) continue;
  judge(node, rgba(getComputedStyle(node).color), backOf(node));
}
for (const node of document.querySelectorAll(".plot svg text")) {
  const cell = node.previousElementSibling;
  let back = backOf(node.closest(".chart"));
  if (cell && cell.tagName === "rect" && meet(cell.getBoundingClientRect(), node.getBoundingClientRect()) > 0) {
    const style = getComputedStyle(cell);
    back = over(rgba(style.fill), back, Number(style.opacity));
  }
  judge(node, rgba(getComputedStyle(node).fill), back);
}
if (document.documentElement.scrollWidth !== innerWidth) wide.push(`the page: ${document.documentElement.scrollWidth}`);
return { overlaps: overlaps.slice(0, 20), wide: wide.slice(0, 20), faint: [...faint.values()], charts: document.querySelectorAll(".plot svg").length };
};
const found = [];
for (const width of WIDTHS) {
  await resize(width);
  document.querySelectorAll(".methods details").forEach((node) => { node.open = width > 1020; });
  for (const theme of ["light", "dark"]) {
    // Boxes are where they are in either theme.
    if (document.documentElement.dataset.theme !== theme) document.getElementById("theme").click();
    await pause(200);
    found.push({ width, theme, ...layout(theme === "light") });
  }
}
return found;
"""


PLANS = {"digits": MANY, "cifar10": PIXELS, "own-data": OWN_DATA, "evaluate": BROUGHT, "classes": CLASSES}


@pytest.fixture(scope="module")
def page_of(tmp_path_factory):
    """Give the page of a kind of run: 22 methods of which three share a network, images under corruptions with a
    reduced budget, own data with cells missing, brought predictions, 200 classes.
    """
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def make(name: str) -> Path:
        store = write_run(folder / name, PLANS[name])
        if name == "digits":
            share_a_network(store, ("energy", "mahalanobis", "gmm"))
        run = load_run(store)
        page = folder / f"{name}.html"
        page.write_text(
            make_page(run, compute_statistics(store, run.tables, 0), read_groups(store, run)), encoding="utf-8"
        )
        return page

    return make


def share_a_network(store, methods):
    """Give the methods the first one's values of what probabilities decide."""
    records = {(record.cell.method, record.cell.seed): record for record in store.records()}
    for (method, seed), record in records.items():
        if method in methods[1:]:
            first = records[methods[0], seed].test
            own = {name: first[name] for name in ("accuracy", "ece", "nll", "brier", "mce", "ece_equal_mass")}
            store.replace_record(replace(record, metrics={**record.metrics, TEST: {**record.test, **own}}))


# Over two seconds: a browser lays the page out three times in two themes.
@pytest.mark.parametrize(
    "name",
    [
        "digits",
        "own-data",
        # slow: the same parts of a page with other content
        *(pytest.param(name, marks=pytest.mark.slow) for name in PLANS if name not in ("digits", "own-data")),
    ],
)
def test_nothing_overlaps_is_too_wide_or_too_faint(page_of, tmp_path: Path, name):
    answer = run_page(page_of(name), LAYOUT.replace("WIDTHS", str(list(WIDTHS))), tmp_path, width=WIDTHS[0])
    assert answer["problems"] == []
    assert [(found["width"], found["theme"]) for found in answer["value"]] == list(product(WIDTHS, ("light", "dark")))
    for found in answer["value"]:
        assert found["charts"] > 4
        assert (found["overlaps"], found["wide"], found["faint"]) == ([], [], []), (found["width"], found["theme"])


def test_methods_on_one_network_have_a_letter_and_stand_together_where_asked(page_of, tmp_path: Path):
    value = run_page(
        page_of("digits"),
        """
        const table = document.querySelector("#leaderboard-digits-fair");
        const rows = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
        const shared = () => rows().map((row, at) => (row.dataset.network ? at : null)).filter((at) => at !== null);
        const filled = rows().every((row) => [...row.cells].every((cell) => cell.textContent.trim()));
        const names = rows().filter((row) => row.dataset.network).map((row) => row.dataset.name).sort();
        table.querySelector("th[data-key=rank] button").click();
        const button = table.closest(".table-box").querySelector("[data-together]");
        const result = { names, filled, pressed: button.getAttribute("aria-pressed") };
        button.click();
        result.together = shared();
        table.querySelector("th[data-key=aurc] button").click();
        result.sorted = shared();
        const drawn = (chart) => document.querySelectorAll(`[data-chart=${chart}] .plot text[data-m=gmm], [data-chart=${chart}] .plot text[data-m=energy]`).length;
        Object.assign(result, { bars: drawn("calibration_bars"), ood: drawn("ood_bars") });
        document.querySelector('.methods button[data-name="energy"]').click();
        result.off = shared().length;
        const note = table.closest(".table-box").querySelector(".nothing");
        result.note = note.textContent;
        note.querySelector("button").click();
        result.back = shared().length;
        return result;
        """,
        tmp_path,
    )["value"]
    assert value["names"] == ["energy", "gmm", "mahalanobis"]
    assert (value["filled"], value["pressed"]) == (True, "false")
    for places in (value["together"], value["sorted"]):
        assert places == list(range(places[0], places[0] + 3))
    # A row is a name and a value.
    assert (value["bars"], value["ood"]) == (2, 4)
    assert (value["off"], value["back"]) == (2, 3)
    assert value["note"].startswith("1 row is hidden")


def test_weights_reorder_plot_and_table_and_a_name_tells_of_its_method(page_of, tmp_path: Path):
    value = run_page(
        page_of("digits"),
        """
        const section = document.querySelector("section.group");
        const order = () => [...section.querySelectorAll("#leaderboard-digits-fair tbody tr")].map((row) => row.dataset.name);
        const plotted = () => [...section.querySelectorAll("[data-chart=mean_ranks] .plot circle")].map((node) => node.dataset.m);
        const result = { first: order(), plot: plotted() };
        const chips = [...section.querySelectorAll(".cares .chip")];
        result.words = chips.map((chip) => chip.textContent);
        chips[1].click();
        result.weights = section.querySelector(".weights").textContent;
        Object.assign(result, { calibration: order(), calibrationPlot: plotted() });
        chips[0].click();
        result.back = order();
        section.querySelector('[data-about="energy"]').click();
        result.about = document.querySelector("dialog").textContent;
        return result;
        """,
        tmp_path,
    )["value"]
    assert value["first"] == value["plot"] == value["back"]
    assert value["calibration"] == value["calibrationPlot"] != value["first"]
    assert value["words"] == ["everything equally", "calibration", "abstention", "OOD", "cost"]
    assert "ECE × 3" in value["weights"]
    assert "Liu et al. (2020)" in value["about"]
    assert 'VoltaClassifier(method="energy")' in value["about"]


def test_parts_have_addresses_and_the_current_one_is_marked(page_of, tmp_path: Path):
    value = run_page(
        page_of("digits"),
        """
        document.documentElement.style.scrollBehavior = "auto";
        const links = [...document.querySelectorAll(".top nav a")];
        const current = () => links.filter((link) => link.hasAttribute("aria-current")).map((link) => link.textContent);
        const nav = document.querySelector(".top nav");
        const start = nav.scrollLeft;
        location.hash = "#shifts";
        await pause(400);
        // On a busy machine the browser tells later what came into view.
        for (let tries = 0; tries < 150 && !(current().length && nav.scrollLeft > start); tries += 1) await pause(40);
        return { every: links.map((link) => document.querySelector(link.getAttribute("href")) !== null),
          current: current(), moved: nav.scrollLeft > start, scrollable: nav.scrollWidth > nav.clientWidth };
        """,
        tmp_path,
        width=390,
    )["value"]
    assert all(value["every"])
    assert value["current"] == ["Corruptions"]
    assert value["scrollable"]
    assert value["moved"]


def test_a_tap_shows_what_a_hover_shows_until_the_next_tap(page_of, tmp_path: Path):
    value = run_page(
        page_of("classes"),
        """
        const tip = document.getElementById("tip");
        const cell = document.querySelector("#results-digits-fair td[data-tip]");
        const send = (node, kind) => node.dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerType: "touch", clientX: 20, clientY: 20 }));
        for (const kind of ["pointerover", "pointerdown", "pointerup", "pointerout"]) send(cell, kind);
        const kept = [!tip.hidden, tip.textContent];
        send(document.querySelector("h1"), "pointerdown");
        return { kept, closed: tip.hidden };
        """,
        tmp_path,
    )["value"]
    assert value["kept"][0] is True
    assert value["kept"][1].startswith("seed 1: ")
    assert value["closed"] is True
