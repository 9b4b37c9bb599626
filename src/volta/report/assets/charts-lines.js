// Lines: risk against coverage, and parallel coordinates.
register("risk", (group, chart, width) => {
  const { x: grid, lines } = chart.data;
  const shown = oursLast(group.shown().filter((m) => lines[m.name]));
  if (!shown.length) return null;
  const height = Math.max(320, Math.min(440, width * 0.72));
  const box = { left: 58, right: width - 12, top: 10, bottom: height - 46 };
  const root = frame(width, height, "Risk against coverage");
  const start = grid.findIndex((v) => v >= 0.05);
  const top = Math.max(...shown.flatMap((m) => lines[m.name].mean.slice(Math.max(0, start)))) * 1.06 || 0.01;
  const x = line(0, 1, box.left, box.right);
  const y = line(0, top, box.bottom, box.top);
  axes(root, x, y, box, width < 460 ? "coverage" : "coverage: share of rows kept, most certain first", "risk ↓");
  const clip = (v) => y(Math.min(v, top));
  for (const m of shown) {
    const own = lines[m.name];
    if (m.ours || shown.length === 1) {
      const band = [...grid.map((v, i) => `${x(v)},${clip(own.high[i])}`), ...grid.map((v, i) => `${x(v)},${clip(own.low[i])}`).reverse()];
      root.append(svg("path", { d: `M${band.join("L")}Z`, "data-m": m.name, style: `fill:${color(m)};fill-opacity:.14;stroke:none` }));
    }
    root.append(svg("path", { d: `M${grid.map((v, i) => `${x(v).toFixed(1)},${clip(own.mean[i]).toFixed(1)}`).join("L")}`, "data-m": m.name,
      style: `fill:none;stroke:${color(m)};stroke-width:${m.ours ? 3 : 1.6};stroke-dasharray:${m.dash || "none"}` }));
  }
  const cross = root.appendChild(svg("g", { visibility: "hidden" }, svg("line", { class: "rule", y1: box.top, y2: box.bottom }), svg("circle", { r: 4, style: "fill:var(--ink)" })));
  root.addEventListener("pointermove", (event) => {
    const frameBox = root.getBoundingClientRect();
    const [px, py] = [event.clientX - frameBox.left, event.clientY - frameBox.top];
    if (px < box.left || px > box.right) { cross.setAttribute("visibility", "hidden"); hideTip(); group.highlight(null); return; }
    const wanted = (px - box.left) / (box.right - box.left);
    const at = grid.reduce((best, v, i) => (Math.abs(v - wanted) < Math.abs(grid[best] - wanted) ? i : best), 0);
    const near = shown.reduce((best, m) => (Math.abs(clip(lines[m.name].mean[at]) - py) < Math.abs(clip(lines[best.name].mean[at]) - py) ? m : best));
    const own = lines[near.name];
    cross.setAttribute("visibility", "visible");
    cross.children[0].setAttribute("x1", x(grid[at]));
    cross.children[0].setAttribute("x2", x(grid[at]));
    cross.children[1].setAttribute("cx", x(grid[at]));
    cross.children[1].setAttribute("cy", clip(own.mean[at]));
    group.highlight(near.name);
    showTip(`${near.title}\ncoverage ${(100 * grid[at]).toFixed(0)} %: risk ${fixed(own.mean[at])}\nover seeds ${fixed(own.low[at])} to ${fixed(own.high[at])}\nAURC ${short(own.area)}`, event.clientX, event.clientY);
  });
  root.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); hideTip(); group.highlight(null); });
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
