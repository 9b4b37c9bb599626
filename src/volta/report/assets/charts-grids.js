// Grids: methods in rows, a shaded value in each cell; the shade comes with the numbers.
function shade(share) {
  const style = getComputedStyle(document.documentElement);
  const [a, b] = ["--shade-0", "--shade-1"].map((name) => style.getPropertyValue(name).split(",").map(Number));
  const mixed = a.map((v, i) => Math.round(v + (b[i] - v) * share));
  // Of dark and light text the one that reads better.
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = 0.2126 * linear(mixed[0]) + 0.7152 * linear(mixed[1]) + 0.0722 * linear(mixed[2]);
  return [`rgb(${mixed.join(",")})`, luminance > 0.18 ? "#000000" : "#ffffff"];
}
const compact = (v, largest, digits) => (v === null ? "–" : largest >= 0.05 && Math.abs(v) < 100 ? v.toFixed(digits) : v !== 0 && Math.abs(v) >= 1e-3 && Math.abs(v) < 100 ? v.toPrecision(2) : short(Number(v.toPrecision(2))));

function drawGrid(width, rows, columns, digits, label) {
  // rows: {method, cells: [{value, share, tip}]}; columns: [{label, where}]
  if (!rows.length || !columns.length) return null;
  const names = Math.min(190, Math.max(90, width * 0.24));
  const each = Math.max(42, Math.min(92, (width - names - 62) / columns.length));
  const rowHeight = 25;
  const headHeight = 96;
  const full = names + each * columns.length + 62;
  const largest = columns.map((_, i) => Math.max(...rows.map((row) => Math.abs(row.cells[i].value ?? 0))));
  const root = frame(Math.max(full, 200), headHeight + rows.length * rowHeight + 6, label);
  columns.forEach((column, i) => {
    const at = names + (i + 0.4) * each;
    const head = svg("g", { transform: `translate(${at},${headHeight - 8}) rotate(-42)` });
    head.append(text(0, 0, cut(column.label, 18), {}));
    if (column.where) head.append(text(0, 13, cut(column.where, 18), { class: "quiet small" }));
    root.append(head);
  });
  rows.forEach((row, j) => {
    const top = headHeight + j * rowHeight;
    root.append(text(names - 8, top + 17, cut(named(row.method), Math.floor((names - 8) / 7.2)), { "text-anchor": "end", "data-m": row.method.name, style: boldOurs(row.method) }));
    row.cells.forEach((cell, i) => {
      const [back, front] = cell.share === null ? ["transparent", "var(--faint)"] : shade(cell.share);
      const x = names + i * each;
      root.append(svg("rect", { x: x + 0.75, y: top + 0.75, width: each - 1.5, height: rowHeight - 1.5, rx: 2, style: `fill:${back}`, "data-tip": cell.tip, "data-m": row.method.name }));
      root.append(text(x + each / 2, top + 17, compact(cell.value, largest[i], digits), { class: "small", "text-anchor": "middle", "data-m": row.method.name, style: `fill:${front};pointer-events:none` }));
    });
  });
  return root;
}

register("grid", (group, chart, width) => {
  const table = chart.data.tables[chart.state.metric ?? ""];
  const order = table.orders[chart.state.order];
  const shown = group.shown().filter((m) => table.rows[m.name]);
  const rows = (order ? inOrder(shown, order.values, order.up) : shown).map((m) => ({
    method: m,
    cells: table.rows[m.name].map((cell, i) => {
      const { mean = null, share = null, seeds = [] } = cell || {};
      return { value: mean, share, tip: [m.title, `${table.columns[i].tip} ${fixed(mean)}`, ...seedLines(seeds)].join("\n") };
    }),
  }));
  return drawGrid(width, rows, table.columns, table.digits, chart.data.label);
});

// Pairs: the row compared with the column.
const VERDICT_FILLS = { better: "var(--better)", worse: "var(--worse)", equivalent: "var(--equivalent)" };
const TURNED = { better: "worse", worse: "better" };
function pairOf(rows, first, second) {
  // Each pair comes once; the other way round difference and verdict are turned.
  const [own, other] = [(rows[first] || {})[second], (rows[second] || {})[first]];
  if (own) return { difference: own[0], verdict: own[1], p: own[2] };
  return other ? { difference: -other[0], verdict: TURNED[other[1]] || other[1], p: other[2] } : null;
}
register("pairs", (group, chart, width) => {
  const rows = chart.data.metrics[chart.state.metric] || {};
  const known = new Set(Object.entries(rows).flatMap(([first, others]) => [first, ...Object.keys(others)]));
  const shown = (chart.data.shared.includes(chart.state.metric) ? group.joined() : group).shown().filter((m) => known.has(m.name));
  if (shown.length < 2) return null;
  const names = Math.min(190, Math.max(90, width * 0.24));
  const each = Math.max(22, Math.min(46, (width - names - 60) / shown.length));
  const head = 96;
  const root = frame(names + each * shown.length + 70, head + shown.length * 22 + 6, "All pairs");
  shown.forEach((m, i) => {
    root.append(svg("g", { transform: `translate(${names + (i + 0.4) * each},${head - 8}) rotate(-42)` }, text(0, 0, cut(named(m), 16), { "data-m": m.name, style: boldOurs(m) })));
    root.append(text(names - 8, head + i * 22 + 15, cut(named(m), Math.floor((names - 8) / 7.2)), { "text-anchor": "end", "data-m": m.name, style: boldOurs(m) }));
    shown.forEach((other, j) => {
      const found = pairOf(rows, m.name, other.name);
      const [x, y] = [names + j * each, head + i * 22];
      const fill = found && VERDICT_FILLS[found.verdict];
      const words = found ? found.verdict : "–";
      const tipText = m === other ? m.title : `${m.title} − ${other.title}\n${found ? `${found.difference >= 0 ? "+" : ""}${fixed(found.difference)}, p (Holm) ${found.p === null ? "–" : short(found.p)}\n` : ""}${words}`;
      root.append(svg("rect", { x: x + 0.75, y: y + 0.75, width: each - 1.5, height: 20.5, rx: 2, "data-m": m.name, "data-tip": tipText, style: `fill:${m === other ? "transparent" : fill || "var(--rule)"};opacity:${fill ? 0.28 : 0.5}` }));
      if (fill) root.append(text(x + each / 2, y + 15, chart.data.signs[found.verdict], { "text-anchor": "middle", "data-m": m.name, style: "pointer-events:none;font-weight:600" }));
    });
  });
  return root;
});
