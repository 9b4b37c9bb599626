// Grids: the summary heatmap (each column has its own scale) and the shift heatmap (one scale for all).
function shade(share) {
  const style = getComputedStyle(document.documentElement);
  const [a, b] = ["--shade-0", "--shade-1"].map((name) => style.getPropertyValue(name).split(",").map(Number));
  const mixed = a.map((v, i) => Math.round(v + (b[i] - v) * share));
  const luminance = (0.2126 * mixed[0] + 0.7152 * mixed[1] + 0.0722 * mixed[2]) / 255;
  return [`rgb(${mixed.join(",")})`, luminance > 0.5 ? "#14161a" : "#ffffff"];
}
function unit(values, up) {
  const known = values.filter((v) => v !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  return values.map((v) => (v === null ? null : high === low ? 1 : up === false ? (high - v) / (high - low) : (v - low) / (high - low)));
}

function unitRanks(values, up) {
  // 1 is best; equal values share a rank, so that one outlier does not wash out everybody else.
  const known = values.filter((v) => v !== null);
  const beaten = (v) => known.filter((w) => (up === false ? w > v : w < v)).length + (known.filter((w) => w === v).length - 1) / 2;
  return values.map((v) => (v === null ? null : known.length < 2 ? 1 : beaten(v) / (known.length - 1)));
}
const compact = (v, largest, digits) => (v === null ? "–" : largest >= 0.05 && Math.abs(v) < 100 ? v.toFixed(digits) : short(Number(v.toPrecision(2))));

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
    root.append(text(names - 8, top + 17, cut(row.method.title, Math.floor((names - 8) / 7.2)), { "text-anchor": "end", "data-m": row.method.name, style: row.method.name === "volta" ? "font-weight:700" : "" }));
    row.cells.forEach((cell, i) => {
      const [back, front] = cell.share === null ? ["transparent", "var(--faint)"] : shade(cell.share);
      const x = names + i * each;
      root.append(svg("rect", { x: x + 0.75, y: top + 0.75, width: each - 1.5, height: rowHeight - 1.5, rx: 2, style: `fill:${back}`, "data-tip": cell.tip, "data-m": row.method.name }));
      root.append(text(x + each / 2, top + 17, compact(cell.value, largest[i], digits), { class: "small", "text-anchor": "middle", "data-m": row.method.name, style: `fill:${front};pointer-events:none` }));
    });
  });
  return root;
}

function inOrder(shown, valueOf, up) {
  if (!valueOf) return shown;
  const known = shown.map((m) => [m, valueOf(m)]);
  return known.sort((a, b) => (a[1] === null) - (b[1] === null) || (up === false ? a[1] - b[1] : b[1] - a[1])).map((item) => item[0]);
}

function drawSummary(group, chart, width) {
  const keys = group.data.summary;
  const value = (key, m) => { const own = group.values(key, m); return own ? mean(own) : null; };
  const order = chart.state.order;
  const shown = inOrder(group.shown(), order && ((m) => value(order, m)), order && group.data.metrics[order].up);
  const shares = keys.map((key) => unitRanks(shown.map((m) => value(key, m)), group.data.metrics[key].up));
  const rows = shown.map((m, j) => ({
    method: m,
    cells: keys.map((key, i) => ({ value: value(key, m), share: shares[i][j], tip: `${m.title}\n${group.label(key)} ${fixed(value(key, m))}\n${(group.values(key, m) || []).map((v, s) => `seed ${group.data.seeds[s] ?? s}: ${fixed(v)}`).join("\n")}` })),
  }));
  const columns = keys.map((key) => { const [label, where] = group.label(key).split(" ("); return { label, where: where && where.replace(")", "") }; });
  return drawGrid(width, rows, columns, 3, "Summary heatmap");
}

function drawShifts(group, chart, width) {
  const table = group.data.shifts[chart.state.metric];
  if (!table) return null;
  const shown = inOrder(group.shown().filter((m) => table.rows[m.name]), chart.state.order === "mean" ? (m) => mean(table.rows[m.name].filter((v) => v !== null)) : null, table.up);
  const all = unit(shown.flatMap((m) => table.rows[m.name]), table.up);
  const rows = shown.map((m, j) => ({
    method: m,
    cells: table.rows[m.name].map((v, i) => ({ value: v, share: all[j * table.columns.length + i], tip: `${m.title}\n${table.columns[i].label}: ${table.label} ${fixed(v)}` })),
  }));
  return drawGrid(width, rows, table.columns, table.columns.length > 12 ? 2 : 3, "Shift heatmap");
}
