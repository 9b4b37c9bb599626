"""The page in a real browser: it loads without a complaint, sorts, filters, toggles, saves, and fits a phone."""

from __future__ import annotations

import pytest

from volta.metrics import METRICS

from .browser import run_page, take_picture

CHARTS = [
    "mean_ranks",
    "accuracy_ece",
    "risk_coverage",
    "parallel_coordinates",
    "reliability",
    "pairwise",
    "calibration_bars",
    "ood_bars",
    "efficiency",
    "roc_curves",
    "pr_curves",
    "severity_curves",
    "ablation_bars",
    "score_histograms",
    "summary_heatmap",
    "corruption_heatmap",
]


def ask(small, tmp_path, script, **options):
    answer = run_page(small.root / "report.html", script, tmp_path, **options)
    assert answer["problems"] == []
    assert answer["requests"] == []
    return answer["value"]


@pytest.mark.parametrize(("theme", "width"), [("light", 375), ("dark", 1280)])
def test_loads_draws_every_chart_and_fits(small, tmp_path, width, theme):
    value = ask(
        small,
        tmp_path,
        """
        const charts = [...document.querySelectorAll(".chart")];
        return {
          ready: document.documentElement.dataset.ready,
          theme: document.documentElement.dataset.theme,
          drawn: charts.filter((chart) => chart.querySelector(".plot svg")).map((chart) => chart.dataset.chart),
          wide: document.documentElement.scrollWidth,
          width: innerWidth,
          broken: [...document.querySelectorAll(".plot svg *")].filter((node) =>
            [...node.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))).length,
          paper: getComputedStyle(document.body).backgroundColor,
        };
        """,
        width=width,
        theme=theme,
    )
    assert value["ready"] == "yes"
    assert value["theme"] == theme
    assert value["drawn"] == CHARTS
    assert value["wide"] == value["width"] == width
    assert value["broken"] == 0
    assert value["paper"] == {"light": "rgb(251, 250, 248)", "dark": "rgb(20, 22, 26)"}[theme]


def test_the_theme_button_switches_and_charts_follow(small, tmp_path):
    value = ask(
        small,
        tmp_path,
        """
        const cell = () => document.querySelector("[data-chart=summary_heatmap] rect").style.fill;
        const before = [document.documentElement.dataset.theme, cell()];
        document.getElementById("theme").click();
        await pause(50);
        return [before, [document.documentElement.dataset.theme, cell()]];
        """,
    )
    assert [theme for theme, _ in value] == ["light", "dark"]
    assert value[0][1] != value[1][1]


def test_sorting_filtering_and_families(small, tmp_path):
    value = ask(
        small,
        tmp_path,
        """
        const box = document.querySelector("#results-digits-fair").closest(".table-box");
        const table = box.querySelector("table");
        const head = (key) => table.querySelector(`th[data-key="${key}"]`);
        const rows = () => [...table.querySelectorAll("tbody tr")];
        const column = (key) => rows().map((row) => Number(row.cells[head(key).cellIndex].dataset.v));
        const order = () => rows().filter((row) => !row.hidden).map((row) => row.dataset.name);
        const shown = () => [...table.tHead.rows[0].cells]
          .filter((cell) => !cell.classList.contains("off")).map((cell) => cell.dataset.key);
        const result = { plan: order(), headline: shown() };
        head("ece").querySelector("button").click();
        result.ece = column("ece");
        result.sort = head("ece").getAttribute("aria-sort");
        head("ece").querySelector("button").click();
        result.turned = column("ece");
        head("ece").querySelector("button").click();
        result.undone = [order(), head("ece").getAttribute("aria-sort")];
        head("accuracy").querySelector("button").click();
        result.accuracy = column("accuracy");
        result.unsorted = head("ece").getAttribute("aria-sort");
        head("method").querySelector("button").click();
        result.names = order();
        const search = box.querySelector("input");
        search.value = "maha";
        search.dispatchEvent(new Event("input"));
        result.filtered = order();
        search.value = "nobody";
        search.dispatchEvent(new Event("input"));
        result.nothing = box.querySelector(".nothing").textContent;
        search.value = "";
        search.dispatchEvent(new Event("input"));
        result.cleared = box.querySelector(".nothing").hidden;
        box.querySelector("[data-family=calibration]").click();
        result.compact = [shown().length, box.querySelector("[data-all]").textContent];
        box.querySelector("[data-all]").click();
        result.calibration = shown();
        return result;
        """,
    )
    assert value["plan"] == ["volta", "softmax", "temperature", "mahalanobis"]
    assert value["headline"][:4] == ["method", "accuracy", "ece", "nll"]
    assert value["ece"] == sorted(value["ece"])
    assert value["sort"] == "ascending"
    assert value["turned"] == value["ece"][::-1]
    assert value["accuracy"] == sorted(value["accuracy"], reverse=True)
    assert value["unsorted"] is None
    assert value["names"] == ["mahalanobis", "softmax", "temperature", "volta"]
    assert value["undone"] == [value["plan"], None]
    assert value["filtered"] == ["mahalanobis"]
    assert value["nothing"] == 'No row matches "nobody".'
    assert value["cleared"] is True
    calibration = [name for name, metric in METRICS.items() if metric.family == "calibration"]
    assert value["calibration"] == ["method", *calibration]
    assert value["compact"] == [8, f"All columns ({1 + len(calibration)})"]


def test_method_toggles_and_presets_reach_every_chart(small, tmp_path):
    value = ask(
        small,
        tmp_path,
        """
        const present = () => Object.fromEntries([...document.querySelectorAll(".chart")].map((chart) =>
          [chart.dataset.chart, chart.querySelectorAll('[data-m="temperature"]').length]));
        const list = document.querySelector(".methods");
        const count = () => list.querySelector("summary span").textContent;
        const before = present();
        const words = [count()];
        list.querySelector('button[data-name="temperature"]').click();
        const after = present();
        words.push(count(), list.querySelector('button[data-name="temperature"]').getAttribute("aria-pressed"));
        const presets = [...list.querySelectorAll(".presets button")];
        const preset = (label) => presets.find((button) => button.textContent === label).click();
        preset("All");
        words.push(count());
        preset("None");
        words.push(count(), document.querySelectorAll(".plot .empty").length);
        return { before, after, words };
        """,
    )
    for chart in (
        "mean_ranks",
        "accuracy_ece",
        "risk_coverage",
        "parallel_coordinates",
        "calibration_bars",
        "ood_bars",
        "roc_curves",
        "pr_curves",
        "efficiency",
        "summary_heatmap",
        "corruption_heatmap",
    ):
        assert value["before"][chart] > 0, chart
        assert value["after"][chart] == 0, chart
    assert value["words"] == ["4 of 7", "3 of 7", "false", "7 of 7", "0 of 7", len(CHARTS) - 1]


def test_choosers_redraw(small, tmp_path):
    value = ask(
        small,
        tmp_path,
        """
        const result = [];
        for (const select of document.querySelectorAll(".chart select")) {
          const plot = select.closest(".chart").querySelector(".plot");
          const before = plot.innerHTML;
          select.selectedIndex = select.options.length - 1;
          select.dispatchEvent(new Event("change"));
          const name = select.closest(".chart").dataset.chart;
          result.push([name, plot.innerHTML !== before, plot.querySelector("svg") !== null]);
        }
        const density = document.querySelector("[data-chart=accuracy_ece] input");
        const plot = density.closest(".chart").querySelector(".plot");
        const before = plot.querySelectorAll("rect").length;
        density.click();
        result.push(["density", plot.querySelectorAll("rect").length > before + 20, true]);
        return result;
        """,
    )
    assert {name for name, *_ in value} == {
        "risk_coverage", "parallel_coordinates", "reliability", "calibration_bars", "pairwise", "ood_bars", "roc_curves", "pr_curves",
        "ablation_bars", "score_histograms", "summary_heatmap", "severity_curves", "corruption_heatmap", "density",
    }  # fmt: skip
    assert all(changed and drawn for _, changed, drawn in value)


def test_saving_a_table_and_a_figure(small, tmp_path):
    value = ask(
        small,
        tmp_path,
        """
        const saved = [];
        URL.createObjectURL = (blob) => { saved.push(blob); return "data:,"; };
        HTMLAnchorElement.prototype.click = function () { saved.at(-1).fileName = this.download; };
        document.querySelector(".table-box:has(#results-digits-fair) [data-csv]").click();
        document.querySelector("[data-chart=accuracy_ece] [data-save=svg]").click();
        document.querySelector("[data-chart=risk_coverage] [data-save=png]").click();
        for (let i = 0; i < 120 && saved.length < 3; i += 1) await pause(50);
        const [csv, svg] = [await saved[0].text(), await saved[1].text()];
        return { names: saved.map((blob) => blob.fileName), csv, svg, png: saved[2].size };
        """,
    )
    assert value["names"] == ["results-digits-fair.csv", "accuracy_ece.svg", "risk_coverage.png"]
    lines = value["csv"].splitlines()
    assert lines[0].startswith("method,accuracy_mean,accuracy_std,ece_mean,ece_std")
    assert len(lines) == 5
    assert lines[2].startswith('"Soft </script>')
    assert value["svg"].startswith("<svg")
    assert "var(--" not in value["svg"]
    assert value["png"] > 5000


def test_keyboard_reaches_per_seed_values_and_tabs(small, tmp_path):
    value = ask(
        small,
        tmp_path,
        """
        const table = document.querySelector("#results-digits-fair");
        const tip = document.getElementById("tip");
        const first = table.querySelector('td[tabindex="0"]');
        first.focus();
        const press = (key) => document.activeElement.dispatchEvent(
          new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        press("ArrowDown");
        press("ArrowRight");
        const cell = document.activeElement;
        const head = table.tHead.rows[0].cells[cell.cellIndex];
        const where = [cell.parentElement.dataset.name, head.dataset.key, cell.dataset.tip];
        const seen = !tip.hidden;
        press("Escape");
        const tabbable = table.querySelectorAll('td[tabindex="0"]').length;
        return { where, tabbable, seen, closed: tip.hidden };
        """,
    )
    assert value["where"][:2] == ["softmax", "ece"]
    assert value["where"][2].startswith("seed 42: ")
    assert value["tabbable"] == 1
    assert value["closed"] is True


def test_controls_have_names(small, tmp_path):
    unnamed = ask(
        small,
        tmp_path,
        """
        const named = (node) => node.textContent.trim() || node.getAttribute("aria-label") || node.closest("label");
        return [...document.querySelectorAll("button, select, input, a[href]")]
          .filter((node) => !named(node)).map((node) => node.outerHTML.slice(0, 120));
        """,
    )
    assert unnamed == []


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (375, "dark")])
def test_pictures_can_be_taken(small, tmp_path, width, theme):
    from matplotlib.image import imread

    picture = tmp_path / "page.png"
    take_picture(small.root / "report.html", picture, tmp_path, width=width, height=1200, theme=theme)
    pixels = imread(picture)[:, :width, :3]
    assert pixels.shape[0] >= 1000
    assert (pixels.mean() > 0.7) == (theme == "light")
    assert pixels.std() > 0.03
