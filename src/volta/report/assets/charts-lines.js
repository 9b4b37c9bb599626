// Lines: risk against coverage, parallel coordinates, a metric over severity, validation losses over epochs.
register("risk", (group, chart, width) => {
  const { x: whole, views, labels, zoom } = chart.data;
  const lines = views[chart.state.view] || {};
  const from = chart.state.axis === "zoom" ? zoom : 0;
  const kept = whole.map((v, i) => i).filter((i) => whole[i] >= from);
  const grid = kept.map((i) => whole[i]);
  const onGrid = (values) => kept.map((i) => values[i]);
  const shown = oursLast(group.shown().filter((m) => lines[m.name]));
  if (!shown.length) return null;
  const height = Math.max(320, Math.min(440, width * 0.72));
  const box = { left: 58, right: width - 112, top: 10, bottom: height - 46 };
  const root = frame(width, height, "Risk against coverage");
  // The first few rows make any curve jump: the axis ends where curves do beyond 5 % coverage.
  const own = new Map(shown.map((m) => [m.name, { mean: onGrid(lines[m.name].mean), low: onGrid(lines[m.name].low), high: onGrid(lines[m.name].high), area: lines[m.name].area }]));
  const top = Math.max(...shown.flatMap((m) => own.get(m.name).mean.filter((_, i) => grid[i] >= 0.05))) * 1.06 || 0.01;
  const best = [...shown].sort((a, b) => own.get(a.name).area - own.get(b.name).area);
  const muted = (m) => shown.length > 12 && best.indexOf(m) >= 5;
  const x = line(from, 1, box.left, box.right);
  const y = line(0, top, box.bottom, box.top);
  axes(root, x, y, box, width < 460 ? "coverage" : "coverage: share of samples kept, most certain first", labels[chart.state.view]);
  const clip = (v) => y(Math.min(v, top));
  for (const m of shown) {
    const mine = own.get(m.name);
    if (m.ours || shown.length === 1) {
      const band = [...grid.map((v, i) => `${x(v)},${clip(mine.high[i])}`), ...grid.map((v, i) => `${x(v)},${clip(mine.low[i])}`).reverse()];
      root.append(svg("path", { d: `M${band.join("L")}Z`, "data-m": m.name, style: `fill:${color(m)};fill-opacity:.14;stroke:none` }));
    }
    root.append(svg("path", { d: `M${grid.map((v, i) => `${x(v).toFixed(1)},${clip(mine.mean[i]).toFixed(1)}`).join("L")}`, "data-m": m.name, style: lineStyle(m, muted(m)) }));
  }
  nameLines(root, best.map((m) => ({ method: m, y: clip(own.get(m.name).mean.at(-1)) })), box);
  const cross = root.appendChild(svg("g", { visibility: "hidden" }, svg("line", { class: "rule", y1: box.top, y2: box.bottom }), svg("circle", { r: 4, style: "fill:var(--ink)" })));
  const point = (event) => {
    const frameBox = root.getBoundingClientRect();
    const [px, py] = [event.clientX - frameBox.left, event.clientY - frameBox.top];
    if (px < box.left || px > box.right) { cross.setAttribute("visibility", "hidden"); hideTip(); group.highlight(null); return; }
    const wanted = from + ((1 - from) * (px - box.left)) / (box.right - box.left);
    const at = grid.reduce((best, v, i) => (Math.abs(v - wanted) < Math.abs(grid[best] - wanted) ? i : best), 0);
    const near = shown.reduce((best, m) => (Math.abs(clip(own.get(m.name).mean[at]) - py) < Math.abs(clip(own.get(best.name).mean[at]) - py) ? m : best));
    const mine = own.get(near.name);
    cross.setAttribute("visibility", "visible");
    cross.children[0].setAttribute("x1", x(grid[at]));
    cross.children[0].setAttribute("x2", x(grid[at]));
    cross.children[1].setAttribute("cx", x(grid[at]));
    cross.children[1].setAttribute("cy", clip(mine.mean[at]));
    group.highlight(near.name);
    showTip(`${near.title}\ncoverage ${(100 * grid[at]).toFixed(0)} %: risk ${fixed(mine.mean[at])}\nover seeds ${fixed(mine.low[at])} to ${fixed(mine.high[at])}\n${chart.state.view === "risk" ? "AURC" : "e-AURC"} × 1000 ${short(1000 * mine.area)}`, event.clientX, event.clientY);
  };
  root.addEventListener("pointermove", point);
  root.addEventListener("pointerdown", point);
  root.addEventListener("pointerleave", (event) => {
    if (isTouch(event)) return; cross.setAttribute("visibility", "hidden"); hideTip(); group.highlight(null); });
  return root;
});

register("parallel", (group, chart, width) => {
  const { axes: across, lines } = chart.data;
  const shown = oursLast(group.shown().filter((m) => lines[m.name]));
  if (!shown.length) return null;
  const inner = Math.max(width, 78 * across.length);
  const height = 360;
  const box = { left: 44, right: inner - 44, top: 30, bottom: height - 62 };
  const root = frame(inner, height, "Parallel coordinates over the headline metrics");
  const x = line(0, across.length - 1, box.left, box.right);
  const scales = across.map((axis, i) => {
    const means = shown.map((m) => lines[m.name].means[i]);
    const [low, high] = [Math.min(...means), Math.max(...means)];
    return line(...(axis.up ? [low, high] : [high, low]), box.bottom, box.top);
  });
  const ranked = line(0, 1, box.bottom, box.top);
  const at = (m, i) => {
    const [worst, best] = scales[i].domain;
    if (worst === best) return (box.top + box.bottom) / 2;
    return chart.state.scale === "ranks" ? ranked(lines[m.name].ranks[i]) : scales[i](lines[m.name].means[i]);
  };
  across.forEach((axis, i) => {
    const [worst, best] = scales[i].domain;
    root.append(svg("line", { class: "axis", x1: x(i), x2: x(i), y1: box.top, y2: box.bottom }));
    root.append(text(x(i), box.top - 10, short(best), { class: "quiet small", "text-anchor": "middle" }));
    root.append(text(x(i), box.bottom + 16, short(worst), { class: "quiet small", "text-anchor": "middle" }));
    root.append(text(x(i), box.bottom + 36, axis.label, { "text-anchor": "middle" }));
    if (axis.where) root.append(text(x(i), box.bottom + 51, cut(axis.where, 15), { class: "quiet small", "text-anchor": "middle" }));
  });
  for (const m of shown) {
    const points = across.map((_, i) => [x(i), at(m, i)]);
    const tipText = [m.title, ...across.map((axis, i) => `${axis.label}${axis.where ? ` (${axis.where})` : ""} ${fixed(lines[m.name].means[i])}`)].join("\n");
    const d = `M${points.map((p) => p.join(",")).join("L")}`;
    root.append(svg("path", { d, "data-m": m.name, style: `fill:none;stroke:${color(m)};stroke-width:${m.ours ? 3.4 : 1.6};stroke-dasharray:${m.dash || "none"}` }));
    for (const [px, py] of points) root.append(marker(m, px, py, m.ours ? 5 : 3.5));
    const reach = root.appendChild(svg("path", { d, "data-tip": tipText, style: "fill:none;stroke:transparent;stroke-width:12" }));
    reach.addEventListener("pointerenter", () => group.highlight(m.name));
    reach.addEventListener("pointerleave", () => group.highlight(null));
  }
  return root;
});

function plainLines(group, width, lines, options) {
  // lines: {method, points: [[x, y]], tip, mark: [x, y] or null}, the best first.
  if (!lines.length) return null;
  const height = Math.max(320, Math.min(440, width * 0.72));
  const box = { left: 58, right: width - 112, top: 10, bottom: height - 46 };
  const root = frame(width, height, options.label);
  const [xs, ys] = [0, 1].map((at) => lines.flatMap((item) => item.points.map((p) => p[at])));
  const x = Object.assign(line(Math.min(...xs), Math.max(...xs), box.left, box.right), { whole: true });
  const y = scaleFor(ys, box.bottom, box.top, options.log, options.floor ?? null);
  axes(root, x, y, box, options.x, options.y);
  const muted = (place) => lines.length > 12 && place >= 5;
  lines.forEach(({ method: m, points, tip: words, mark }, place) => {
    const d = `M${points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join("L")}`;
    root.append(svg("path", { d, "data-m": m.name, style: lineStyle(m, muted(place)) }));
    if (mark) root.append(marker(m, x(mark[0]), y(mark[1]), 5));
    const reach = root.appendChild(svg("path", { d, "data-tip": words, style: "fill:none;stroke:transparent;stroke-width:10" }));
    reach.addEventListener("pointerenter", () => group.highlight(m.name));
    reach.addEventListener("pointerleave", () => group.highlight(null));
  });
  const once = lines.filter((item, place) => lines.findIndex((other) => other.method.name === item.method.name) === place);
  nameLines(root, once.map((item) => ({ method: item.method, y: y(item.points.at(-1)[1]) })), box);
  return root;
}

register("severity", (group, chart, width) => {
  const { metrics, labels } = chart.data;
  const table = (metrics[chart.state.metric] || {})[chart.state.corruption] || {};
  const up = labels[chart.state.metric].includes("↑");
  const last = (m) => table[m.name].at(-1)[1];
  const shown = group.shown().filter((m) => table[m.name]).sort((a, b) => (up ? last(b) - last(a) : last(a) - last(b)));
  const lines = shown.map((m) => ({ method: m, points: table[m.name], mark: null, tip: [m.title, ...table[m.name].map(([severity, value]) => `severity ${severity}: ${fixed(value)}`)].join("\n") }));
  return plainLines(group, width, lines, { x: "severity", y: labels[chart.state.metric], label: "Over severity", log: false });
});

register("training", (group, chart, width) => {
  const found = chart.data.seeds[chart.state.seed] || {};
  const lines = group.shown().flatMap((m) => (found[m.name] || []).map((training) => ({ method: m, training })))
    .sort((a, b) => a.training.losses[a.training.kept - 1] - b.training.losses[b.training.kept - 1])
    .map(({ method, training: { losses, best, kept } }) => ({ method, points: losses.map((loss, at) => [at + 1, loss]), mark: [best, losses[best - 1]],
      tip: `${method.title}\nbest epoch ${best} of ${losses.length}: ${fixed(losses[best - 1])}\nkept: epoch ${kept}, ${fixed(losses[kept - 1])}` }));
  return plainLines(group, width, lines, { x: chart.data.labels[0], y: width < 460 ? "validation loss ↓" : chart.data.labels[1], label: "Training", log: chart.data.log });
});
