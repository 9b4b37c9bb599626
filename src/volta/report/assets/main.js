// Each task's charts share one list of methods: what is switched off there is gone everywhere, what is pointed at stands out.
class Group {
  constructor(data, section) {
    this.data = data;
    this.section = section;
    this.on = new Set(data.methods.filter((m) => m.origin !== "ablation").map((m) => m.name));
    if (!this.on.size) this.on = new Set(data.methods.map((m) => m.name));
    this.charts = [...section.querySelectorAll(".chart")].map((node) => startChart(this, node)).filter(Boolean);
    this.list = section.querySelector(".methods");
    if (this.list) this.fillList();
    this.width = 0;
    new ResizeObserver(() => {
      if (!section.hidden && Math.abs(section.clientWidth - this.width) > 1) this.draw();
    }).observe(section);
  }
  shown() { return this.data.methods.filter((m) => this.on.has(m.name)); }
  values(key, m) { const own = (this.data.values[key] || {})[m.name]; return own && own.length ? own : null; }
  label(key) { return (this.data.metrics[key] || { label: key }).label; }
  title(name) { const found = this.data.methods.find((m) => m.name === name); return found ? found.title : name; }
  draw() {
    this.width = this.section.clientWidth;
    this.charts.forEach((chart) => chart.draw());
  }
  highlight(name) {
    this.section.querySelectorAll(".plot [data-m]").forEach((node) => node.classList.toggle("faded", name !== null && node.dataset.m !== name));
  }
  set(names) {
    this.on = new Set(names);
    this.list.querySelectorAll("li button").forEach((button) => button.setAttribute("aria-pressed", this.on.has(button.dataset.name)));
    this.count();
    this.draw();
  }
  count() { this.list.querySelector("summary span").textContent = `${this.on.size} of ${this.data.methods.length}`; }
  fillList() {
    const items = this.list.querySelector("ul");
    for (const m of this.data.methods) {
      const swatch = svg("svg", { width: 30, height: 14, "aria-hidden": "true" },
        svg("line", { x1: 0, x2: 30, y1: 7, y2: 7, style: `stroke:${color(m)};stroke-width:2;stroke-dasharray:${m.dash || "none"}` }), marker(m, 15, 7, 5));
      const button = html("button", { type: "button", "aria-pressed": this.on.has(m.name), "data-name": m.name }, swatch, html("span", {}, m.title));
      button.addEventListener("click", () => {
        const names = new Set(this.on);
        if (!names.delete(m.name)) names.add(m.name);
        this.set(names);
        this.highlight(null);
      });
      for (const kind of ["pointerenter", "focus"]) button.addEventListener(kind, () => this.highlight(this.on.has(m.name) ? m.name : null));
      for (const kind of ["pointerleave", "blur"]) button.addEventListener(kind, () => this.highlight(null));
      items.append(html("li", {}, button));
    }
    const presets = { Compared: (m) => m.origin !== "ablation", "Paper’s": (m) => m.origin === "paper" || m.origin === "volta", Ablation: (m) => m.origin === "ablation" || m.name === "volta", All: () => true, None: () => false };
    for (const [label, keep] of Object.entries(presets)) {
      const names = this.data.methods.filter(keep).map((m) => m.name);
      if (label !== "None" && !names.length) continue;
      this.list.querySelector(".presets").append(html("button", { type: "button", class: "button", onclick: () => this.set(names) }, label));
    }
    if (window.innerWidth <= 1020) this.list.querySelector("details").open = false;
    this.count();
  }
}

function chooser(label, options, value, onChange) {
  const select = html("select", { "aria-label": label }, ...options.map(([key, words]) => html("option", { value: key, selected: key === value }, words)));
  select.addEventListener("change", () => onChange(select.value));
  return html("label", {}, `${label} `, select);
}
function choices(group, kind) {
  const metrics = group.data.metrics;
  const named = (keys) => keys.filter((key) => metrics[key]).map((key) => [key, metrics[key].label]);
  const ood = group.data.ood.flatMap((s) => [`auroc@${s.key}`, `fpr95@${s.key}`, `aupr_out@${s.key}`]);
  switch (kind) {
    case "reliability": return [["set", "rows", Object.keys(group.data.reliability).map((key) => [key, key === "test" ? "test rows" : key.replace(/^shift:/, "shift: ")]).sort((a, b) => (b[0] === "test") - (a[0] === "test"))]];
    case "histograms": return [["seed", "seed", group.data.seeds.map((s) => [String(s), String(s)])], ["ood", "sets", [["all", "all OOD sets"], ...group.data.ood.map((s) => [s.key, s.label])]]];
    case "parallel": return [["scale", "axes", [["values", "values"], ["ranks", "ranks"]]]];
    case "calibration": return [["metric", "metric", named(["ece", "mce", "ece_equal_mass", "ece_classwise"])]];
    case "ood": return [["metric", "metric", named(ood)]];
    case "summary": return [["order", "order by", [["", "plan"], ...named(group.data.summary)]]];
    case "shifts": return [["metric", "metric", Object.entries(group.data.shifts).map(([key, t]) => [key, t.label])], ["order", "order by", [["", "plan"], ["mean", "mean over shifts"]]]];
    case "ablation": return [
      ["metric", "metric", named([...new Set(group.data.ablation.map((r) => r.metric))])],
      ["reference", "against", [...new Set(group.data.ablation.map((r) => r.reference))].map((key) => [key, group.title(key)])],
    ];
    default: return [];
  }
}
const DRAW = { scatter: drawScatter, efficiency: drawEfficiency, risk: drawRisk, parallel: drawParallel, reliability: drawReliability, histograms: drawHistograms,
  summary: drawSummary, shifts: drawShifts, calibration: drawMetricBars, ood: drawMetricBars, ablation: drawAblation };

function startChart(group, node) {
  const kind = node.dataset.chart;
  const plot = node.querySelector(".plot");
  const tools = node.querySelector(".tools");
  const chart = { state: {}, draw() {
    if (!plot.clientWidth) return;
    const drawing = DRAW[kind](group, chart, plot.clientWidth);
    plot.replaceChildren(drawing || html("p", { class: "empty" }, "Nothing to draw: switch a method on, or see what is missing below."));
  } };
  for (const [name, label, options] of choices(group, kind)) {
    if (!options.length) continue;
    chart.state[name] = options[0][0];
    if (options.length > 1) tools.append(chooser(label, options, options[0][0], (value) => { chart.state[name] = value; chart.draw(); }));
  }
  if (kind === "scatter") {
    const box = html("input", { type: "checkbox" });
    box.addEventListener("change", () => { chart.state.density = box.checked; chart.draw(); });
    tools.append(html("label", {}, box, " density of the other methods’ seeds"));
  }
  if (kind === "histograms") tools.append(histogramKey(group));
  node.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", () => saveChart(node, button.dataset.save)));
  return chart;
}

startTheme();
startTables();
const groups = new Map();
startGroups((section) => {
  if (!groups.has(section)) {
    const data = DATA.groups.find((group) => group.id === section.dataset.group);
    if (!data) return;
    groups.set(section, new Group(data, section));
  }
  groups.get(section).draw();
});
new MutationObserver(() => groups.forEach((group, section) => { if (!section.hidden) group.draw(); })).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
document.documentElement.dataset.ready = "yes";
