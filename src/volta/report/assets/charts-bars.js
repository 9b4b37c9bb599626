// Bars: one metric across methods, and the ablation's differences from a reference.
function bars(width, rows, options) {
  if (!rows.length) return null;
  const names = Math.min(210, Math.max(112, width * 0.34));
  const rowHeight = 22;
  const box = { left: names, right: width - 56, top: 8, bottom: 8 + rows.length * rowHeight };
  const root = frame(width, box.bottom + 42, options.label);
  const ends = rows.flatMap((r) => [r.value - r.std, r.value + r.std, options.start]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const pad = (high - low) * 0.04 || 0.01;
  const reaches = rows.map((r) => Math.abs(r.value - options.start) + r.std).filter((r) => r > 0).sort((a, b) => a - b);
  const middle = reaches[Math.floor(reaches.length / 2)] || 0;
  const dwarfed = options.compress && reaches.at(-1) > 15 * middle;
  // One bar that dwarfs the rest would hide them: beyond the middle reach the axis is compressed.
  const bend = dwarfed ? (v) => Math.asinh(v / middle) * middle : (v) => v;
  const flat = line(bend(low < options.start ? low - pad : options.start), bend(high > options.start ? high + pad : options.start), box.left, box.right);
  const x = (v) => flat(bend(v));
  const powers = Array.from({ length: 12 }, (_, i) => 10 ** (i - 6)).filter((t) => t >= middle);
  const ticks = dwarfed ? [...powers.map((t) => -t), 0, ...powers].filter((t) => t >= low - pad && t <= high + pad)
    : niceTicks(...flat.domain, Math.max(2, Math.floor((box.right - box.left) / 70)));
  for (const t of ticks) {
    root.append(svg("line", { class: "grid", x1: x(t), x2: x(t), y1: box.top, y2: box.bottom }));
    root.append(text(x(t), box.bottom + 16, short(t), { class: "quiet", "text-anchor": "middle" }));
  }
  rows.forEach((r, j) => {
    const y = box.top + j * rowHeight;
    const [from, to] = [Math.min(x(r.value), x(options.start)), Math.max(x(r.value), x(options.start))];
    root.append(text(names - 8, y + 15, cut(r.title, Math.floor((names - 8) / 7.4)), { "text-anchor": "end", "data-m": r.name, style: r.name === "volta" ? "font-weight:700" : "" }));
    root.append(svg("rect", { x: from, width: Math.max(to - from, 0.8), y: y + 3, height: rowHeight - 7, rx: 1.5, "data-m": r.name, "data-tip": r.tip, style: `fill:${r.fill};opacity:.85` }));
    if (r.std) root.append(svg("line", { x1: x(r.value - r.std), x2: x(r.value + r.std), y1: y + rowHeight / 2 - 0.5, y2: y + rowHeight / 2 - 0.5, "data-m": r.name, style: "stroke:var(--ink);stroke-width:1.2;pointer-events:none" }));
    root.append(text(width - 50, y + 15, r.note, { class: "small", "data-m": r.name }));
  });
  root.append(svg("line", { class: "axis", x1: x(options.start), x2: x(options.start), y1: box.top, y2: box.bottom }));
  root.append(text((box.left + box.right) / 2, box.bottom + 36, dwarfed ? `${options.axis} (compressed)` : options.axis, { "text-anchor": "middle" }));
  return root;
}

function drawMetricBars(group, chart, width) {
  const key = chart.state.metric;
  const up = group.data.metrics[key].up;
  const rows = inOrder(group.shown().filter((m) => group.values(key, m)), (m) => mean(group.values(key, m)), up).map((m) => {
    const own = group.values(key, m);
    return { name: m.name, title: m.title, value: mean(own), std: deviation(own), fill: color(m), note: fixed(mean(own)),
      tip: [m.title, ...own.map((v, s) => `seed ${group.data.seeds[s] ?? s}: ${fixed(v)}`)].join("\n") };
  });
  return bars(width, rows, { start: key.startsWith("auroc") ? 0.5 : 0, axis: `${group.label(key)}${key.startsWith("auroc") ? ", from chance" : ""}`, label: group.label(key) });
}

function drawAblation(group, chart, width) {
  const { metric, reference } = chart.state;
  const up = group.data.metrics[metric].up;
  const rows = group.data.ablation.filter((r) => r.metric === metric && r.reference === reference).map((r) => {
    const better = up === false ? r.difference <= 0 : r.difference >= 0;
    const same = Math.abs(r.difference) < 1e-9;
    const title = group.title(r.row);
    return { name: r.row, title, value: r.difference, std: r.std, fill: better ? hue(1) : hue(4), note: `${same ? "same" : better ? "better" : "worse"}${r.significant ? " *" : ""}`,
      tip: `${title}\n${r.difference >= 0 ? "+" : ""}${fixed(r.difference)} against ${group.title(reference)}\np = ${r.p === null ? "–" : short(r.p)}` };
  });
  return bars(width, rows, { start: 0, axis: `${group.label(metric)}: difference from ${group.title(reference)}`, label: "Ablation", compress: true });
}
