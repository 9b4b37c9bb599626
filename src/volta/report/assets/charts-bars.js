// Bars: one metric across methods, and the ablation's differences from a reference.
function bars(width, rows, options) {
  if (!rows.length) return null;
  const names = Math.min(210, Math.max(112, width * 0.34));
  const rowHeight = 22;
  const room = options.room || 56;
  const box = { left: names, right: width - room, top: 8, bottom: 8 + rows.length * rowHeight };
  const root = frame(width, box.bottom + 42, options.label);
  const ends = rows.flatMap((r) => [r.value - r.std, r.value + r.std, options.start]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const pad = (high - low) * 0.04 || 0.01;
  // One bar that dwarfs the rest would hide them: beyond the middle reach, which comes with the numbers, the axis is compressed.
  const middle = options.bend;
  const bend = middle ? (v) => Math.asinh(v / middle) * middle : (v) => v;
  const flat = line(bend(low < options.start ? low - pad : options.start), bend(high > options.start ? high + pad : options.start), box.left, box.right);
  const x = (v) => flat(bend(v));
  const powers = Array.from({ length: 12 }, (_, i) => 10 ** (i - 6)).filter((t) => t >= middle);
  const ticks = middle ? [...powers.map((t) => -t), 0, ...powers].filter((t) => t >= low - pad && t <= high + pad)
    : niceTicks(...flat.domain, Math.max(2, Math.floor((box.right - box.left) / 70)));
  for (const t of ticks) {
    root.append(svg("line", { class: "grid", x1: x(t), x2: x(t), y1: box.top, y2: box.bottom }));
    root.append(text(x(t), box.bottom + 16, short(t, 5), { class: "quiet", "text-anchor": "middle" }));
  }
  rows.forEach((r, j) => {
    const y = box.top + j * rowHeight;
    const [from, to] = [Math.min(x(r.value), x(options.start)), Math.max(x(r.value), x(options.start))];
    root.append(text(names - 8, y + 15, cut(r.title, Math.floor((names - 8) / 7.4)), { "text-anchor": "end", "data-m": r.name, style: boldOurs(r) }));
    root.append(svg("rect", { x: from, width: Math.max(to - from, 0.8), y: y + 3, height: rowHeight - 7, rx: 1.5, "data-m": r.name, "data-tip": r.tip, style: `fill:${r.fill};opacity:.85` }));
    if (r.std) root.append(svg("line", { x1: x(r.value - r.std), x2: x(r.value + r.std), y1: y + rowHeight / 2 - 0.5, y2: y + rowHeight / 2 - 0.5, "data-m": r.name, style: "stroke:var(--ink);stroke-width:1.2;pointer-events:none" }));
    root.append(text(box.right + 6, y + 15, r.note, { class: "small", "data-m": r.name }));
  });
  root.append(svg("line", { class: "axis", x1: x(options.start), x2: x(options.start), y1: box.top, y2: box.bottom }));
  root.append(text((box.left + box.right) / 2, box.bottom + 36, middle ? `${options.axis} (compressed)` : options.axis, { "text-anchor": "middle" }));
  return root;
}

register("bars", (group, chart, width) => {
  const metric = chart.data.metrics[chart.state.metric];
  const means = Object.fromEntries(Object.entries(metric.rows).map(([name, row]) => [name, row.mean]));
  const rows = inOrder(group.shown().filter((m) => metric.rows[m.name]), means, metric.up).map((m) => {
    const own = metric.rows[m.name];
    return { name: m.name, title: named(m), ours: m.ours, value: own.mean, std: own.std, fill: color(m), note: own.mean === null ? "–" : own.mean.toPrecision(3), tip: [m.title, ...seedLines(own.seeds)].join("\n") };
  });
  return bars(width, rows, { start: metric.start, axis: metric.axis, label: metric.label });
});

register("differences", (group, chart, width) => {
  const { metric, reference } = chart.state;
  const table = chart.data.tables[metric][reference];
  if (!table) return null;
  const rows = table.rows.map((r) => {
    const m = group.method(r.row);
    // A difference in numbers: "better" would say more than a bar without a star shows.
    const change = r.same || Math.abs(r.difference) < 5e-5 ? "0" : `${r.difference >= 0 ? "+" : ""}${fixed(r.difference)}`;
    return { name: m.name, title: m.title, ours: m.ours, value: r.difference, std: r.std, fill: r.better ? hue(1) : hue(4), note: `${change}${r.significant ? " *" : ""}`,
      tip: `${m.title}\n${change} against ${group.method(reference).title}\np (Holm) ${r.p === null ? "–" : short(r.p)}` };
  });
  return bars(width, rows, { start: 0, axis: table.axis, label: "Ablation", bend: table.bend, room: 70 });
});
