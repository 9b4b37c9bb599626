// Each task's charts share one list of methods: what is switched off there is gone everywhere, what is pointed at stands out.
class Group {
  constructor(data, section) {
    this.data = data;
    this.section = section;
    section.group = this;
    this.on = new Set(data.methods.filter((m) => m.origin !== "ablation").map((m) => m.name));
    if (!this.on.size) this.on = new Set(data.methods.map((m) => m.name));
    this.atFirst = new Set(this.on);
    this.charts = [...section.querySelectorAll(".chart")].map((node) => startChart(this, node));
    section.querySelectorAll("[data-about]").forEach((button) => button.addEventListener("click", () => tellOf(this.method(button.dataset.about))));
    // What is pointed at in one chart or table stands out in all charts.
    for (const [kind, on] of [["pointerover", true], ["pointerout", false]]) {
      section.addEventListener(kind, (event) => {
        const node = event.target.closest(".plot [data-m], tbody tr[data-method]");
        if (node) this.highlight(on ? node.dataset.m || node.dataset.method.split("\n")[0] : null);
      });
    }
    this.list = section.querySelector(".methods");
    if (this.list) this.fillList();
    this.width = 0;
    // Later, not within the notice: drawing changes the section's height, which the browser would report as a loop.
    new ResizeObserver(() => setTimeout(() => {
      if (!section.hidden && Math.abs(section.clientWidth - this.width) > 1) this.draw();
    })).observe(section);
  }
  shown() { return this.data.methods.filter((m) => this.on.has(m.name)); }
  method(name) { return this.data.methods.find((m) => m.name === name); }
  isOff(name) { return this.atFirst.has(name) && !this.on.has(name); }
  reset() { this.set(this.atFirst); }
  draw() {
    this.width = this.section.clientWidth;
    this.charts.forEach((chart) => chart.draw());
  }
  network(name) { return this.data.networks.find((names) => names.includes(name)) || [name]; }
  // The same group with the methods of one network as one, for charts of what probabilities alone decide.
  joined() {
    const group = Object.create(this);
    group.shown = () => {
      const shown = this.shown();
      return shown.map((m) => {
        const together = shown.filter((other) => this.network(m.name).includes(other.name));
        if (together[0] !== m) return null;
        const more = together.length > 1 ? { title: `${together.map((one) => one.title).join(", ")} (one network)`, label: `${m.title} +${together.length - 1}` } : {};
        return { ...m, ...more };
      }).filter(Boolean);
    };
    return group;
  }
  highlight(name) {
    if (name !== null && !this.on.has(name)) return;
    const together = name === null ? [] : this.network(name);
    this.section.querySelectorAll(".plot [data-m]").forEach((node) => {
      const own = node.dataset.m === name || (together.includes(node.dataset.m) && node.closest(".chart").dataset.shared);
      node.classList.toggle("faded", name !== null && !own);
    });
  }
  set(names) {
    this.on = new Set(names);
    this.list.querySelectorAll("li button").forEach((button) => button.setAttribute("aria-pressed", this.on.has(button.dataset.name)));
    this.count();
    this.draw();
    this.section.querySelectorAll(".table-box").forEach(showRows);
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
    const presets = { Compared: (m) => m.origin !== "ablation", "Paper’s": (m) => m.origin === "paper" || m.ours, Ablation: (m) => m.origin === "ablation" || m.ours, All: () => true, None: () => false };
    for (const [label, keep] of Object.entries(presets)) {
      const names = this.data.methods.filter(keep).map((m) => m.name);
      // A preset of nothing but our own method says nothing.
      if (label !== "None" && !this.data.methods.some((m) => keep(m) && !m.ours)) continue;
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
function ticker(label, onChange) {
  const box = html("input", { type: "checkbox" });
  box.addEventListener("change", () => onChange(box.checked));
  return html("label", {}, box, ` ${label}`);
}

function startChart(group, node) {
  const { kind, shared, data, choices, switches } = group.data.charts[node.dataset.chart];
  const shownGroup = shared ? group.joined() : group;
  const { draw, extra } = DRAWINGS.get(kind);
  const plot = node.querySelector(".plot");
  const tools = node.querySelector(".tools");
  const chart = { data, state: {}, draw() {
    if (!plot.clientWidth) return;
    plot.replaceChildren(draw(shownGroup, chart, plot.clientWidth) || html("p", { class: "empty" }, "Nothing to draw: switch a method on, or see what is missing below."));
  } };
  const choose = (name) => (value) => { chart.state[name] = value; chart.draw(); };
  for (const { name, label, options } of choices) {
    if (!options.length) continue;
    chart.state[name] = options[0][0];
    if (options.length > 1) tools.append(chooser(label, options, options[0][0], choose(name)));
  }
  for (const { name, label } of switches) tools.append(ticker(label, choose(name)));
  if (extra) tools.append(extra(chart, group));
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
