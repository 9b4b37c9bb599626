// Small multiples, one panel per method: reliability diagrams and score histograms.
function panels(width, items, panelWidth, panelHeight, label, draw) {
  if (!items.length) return null;
  const columns = Math.max(1, Math.min(items.length, Math.floor(width / panelWidth)));
  const each = width / columns;
  const root = frame(width, Math.ceil(items.length / columns) * panelHeight, label);
  items.forEach((item, i) => {
    const panel = svg("g", { transform: `translate(${(i % columns) * each},${Math.floor(i / columns) * panelHeight})` });
    draw(panel, item, each, panelHeight);
    root.append(panel);
  });
  return root;
}
const panelTitle = (m, width) => text(4, 14, cut(named(m), Math.floor(width / 7)), { style: boldOurs(m) });

register("reliability", (group, chart, width) => {
  const bins = chart.data.sets[chart.state.set];
  const items = group.shown().filter((m) => bins[m.name]);
  return panels(width, items, width < 500 ? 136 : 158, 200, "Reliability diagrams", (panel, m, each, tall) => {
    const own = bins[m.name];
    const box = { left: 26, right: each - 12, top: 24, bottom: tall - 48 };
    const x = line(0, 1, box.left, box.right);
    const y = line(0, 1, box.bottom, box.top);
    const total = own.n.reduce((a, b) => a + b, 0) || 1;
    const step = 1 / own.n.length;
    panel.append(panelTitle(m, each));
    for (const t of [0, 0.5, 1]) {
      panel.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(t), y2: y(t) }));
      panel.append(text(box.left - 4, y(t) + 4, t === 0.5 ? ".5" : String(t), { class: "quiet small", "text-anchor": "end" }));
      panel.append(text(x(t), box.bottom + 27, t === 0.5 ? ".5" : String(t), { class: "quiet small", "text-anchor": "middle" }));
    }
    own.n.forEach((n, b) => {
      if (!n) return;
      const [left, wide] = [x(b * step) + 0.5, x(step) - x(0) - 1];
      const tipText = `${m.title}\nconfidence ${fixed(own.confidence[b])}, accuracy ${fixed(own.accuracy[b])}\n95 %: ${fixed(own.low[b])} to ${fixed(own.high[b])}\n${n} samples (${((100 * n) / total).toFixed(1)} %)${own.few[b] ? "\ntoo few to judge" : ""}`;
      panel.append(svg("rect", { x: left, width: wide, y: y(own.accuracy[b]), height: y(0) - y(own.accuracy[b]), style: `fill:${own.few[b] ? "var(--rule-strong)" : color(m)};opacity:.8` }));
      const [low, high] = [Math.min(own.accuracy[b], own.confidence[b]), Math.max(own.accuracy[b], own.confidence[b])];
      panel.append(svg("rect", { x: left, width: wide, y: y(high), height: y(low) - y(high), style: "fill:var(--ink);opacity:.22" }));
      panel.append(svg("line", { x1: left, x2: left + wide, y1: y(own.confidence[b]), y2: y(own.confidence[b]), style: "stroke:var(--ink);stroke-width:1.2" }));
      if (!own.few[b]) panel.append(svg("line", { x1: left + wide / 2, x2: left + wide / 2, y1: y(own.low[b]), y2: y(own.high[b]), style: "stroke:var(--ink);stroke-width:1" }));
      panel.append(svg("rect", { x: left, width: wide, y: box.bottom + 2, height: Math.max(0.6, (13 * n) / total), style: "fill:var(--faint)" }));
      panel.append(svg("rect", { x: left, width: wide + 1, y: box.top, height: box.bottom - box.top + 15, style: "fill:transparent", "data-tip": tipText }));
    });
    panel.append(svg("line", { class: "rule", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
    // Below the panel: within it bars of any height may stand in the way.
    const expected = own.expected === null ? "" : `, expected ${own.expected.toFixed(4)}`;
    panel.append(text(4, tall - 6, `ECE ${own.ece === null ? "–" : own.ece.toFixed(4)}${expected}`, { class: "small" }));
  });
});

const SET_DASHES = ["none", "5 2", "5 2 1 2", "2 2"];
const setDash = (index) => SET_DASHES[index % SET_DASHES.length];
register("histograms", (group, chart, width) => {
  const { sets: all, methods } = chart.data;
  const seed = chart.state.seed;
  const items = group.shown().filter((m) => (methods[m.name] || {})[seed]);
  const sets = all.filter((s) => chart.state.ood === "all" || s.key === chart.state.ood);
  return panels(width, items, width < 500 ? 136 : 210, 138, "Score histograms", (panel, m, each, tall) => {
    const own = methods[m.name][seed];
    const box = { left: 6, right: each - 12, top: 22, bottom: tall - 22 };
    const count = own.edges.length - 1;
    const x = line(0, count, box.left, box.right);
    const highest = Math.sqrt(Math.max(...["test", ...sets.map((s) => s.key)].flatMap((key) => own.shares[key] || [0]))) || 1;
    const y = (share) => box.bottom - (Math.sqrt(share) / highest) * (box.bottom - box.top);
    const steps = (shares) => shares.map((s, b) => `${x(b).toFixed(1)},${y(s).toFixed(1)}L${x(b + 1).toFixed(1)},${y(s).toFixed(1)}`).join("L");
    panel.append(panelTitle(m, each));
    panel.append(svg("path", { d: `M${x(0)},${box.bottom}L${steps(own.shares.test)}L${x(count)},${box.bottom}Z`, style: "fill:var(--faint);opacity:.45" }));
    sets.forEach((s) => {
      if (!own.shares[s.key]) return;
      panel.append(svg("path", { d: `M${steps(own.shares[s.key])}`, style: `fill:none;stroke:${hue(s.hue)};stroke-width:1.6;stroke-dasharray:${setDash(all.indexOf(s))}` }));
    });
    panel.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    [[0, "start"], [count, "end"]].forEach(([b, anchor]) => panel.append(text(x(b), box.bottom + 14, short(own.edges[b]), { class: "quiet small", "text-anchor": anchor })));
    const tipText = [m.title, ...sets.map((s) => `${s.label}: AUROC ${fixed(own.auroc[s.key])}`)].join("\n");
    panel.append(svg("rect", { x: 0, y: 0, width: each, height: tall, style: "fill:transparent", "data-tip": tipText }));
  });
}, histogramKey);
function histogramKey(chart) {
  const items = chart.data.sets.map((s, i) => html("span", {}, svgLine(hue(s.hue), setDash(i)), ` ${s.label}${s.near ? " (near)" : ""}`));
  return html("span", { class: "key" }, html("span", { style: "background:var(--faint);opacity:.45;display:inline-block;width:14px;height:10px;margin-right:.3em" }), "test samples ", ...items.flatMap((item) => [" ", item]));
}
function svgLine(stroke, dash) {
  return svg("svg", { width: 26, height: 10, style: "vertical-align:middle" }, svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, style: `stroke:${stroke};stroke-width:2;stroke-dasharray:${dash || "none"}` }));
}
