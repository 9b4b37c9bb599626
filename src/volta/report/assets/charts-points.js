// Points: accuracy against ECE (with density), latency against ECE (bubble = size).
function paretoFront(points) {
  return points.filter((p) => !points.some((q) => q !== p && q.gx >= p.gx && q.gy >= p.gy && (q.gx > p.gx || q.gy > p.gy)));
}

function placeLabels(root, points, box) {
  const taken = points.map((p) => [p.px - p.r, p.py - p.r, p.px + p.r, p.py + p.r]);
  const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  for (const p of points.filter((q) => q.label)) {
    const width = p.label.length * 6.4;
    const places = [];
    for (const gap of [4, 14]) {
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]]) {
        const x = dx > 0 ? p.px + p.r + gap : dx < 0 ? p.px - p.r - gap - width : p.px - width / 2;
        const y = p.py + dy * (p.r + gap + 3);
        const area = [x, y - 8, x + width, y + 5];
        const outside = area[0] < box.left || area[2] > box.right || area[1] < box.top || area[3] > box.bottom;
        places.push({ x, y, area, cost: taken.reduce((sum, other) => sum + overlap(area, other), 0) + (outside ? 900 : 0) + gap });
      }
    }
    const best = places.reduce((a, b) => (b.cost < a.cost ? b : a));
    taken.push(best.area);
    root.append(text(best.x, best.y + 4, p.label, { "data-m": p.method.name, style: `paint-order:stroke;stroke:var(--card);stroke-width:3;${p.ours ? "font-weight:700" : ""}` }));
  }
}

function shadeDensity(root, points, x, y, box) {
  const n = points.length;
  if (n < 5) return;
  const spread = (values, size) => Math.max(deviation(values), size / 50) * n ** (-1 / 6);
  const hx = spread(points.map((p) => p[0]), box.right - box.left);
  const hy = spread(points.map((p) => p[1]), box.bottom - box.top);
  const [columns, rows] = [48, 36];
  const [w, h] = [(box.right - box.left) / columns, (box.bottom - box.top) / rows];
  const cells = [];
  let peak = 0;
  for (let i = 0; i < columns; i += 1)
    for (let j = 0; j < rows; j += 1) {
      const [cx, cy] = [box.left + (i + 0.5) * w, box.top + (j + 0.5) * h];
      const value = points.reduce((sum, p) => sum + Math.exp(-0.5 * (((cx - p[0]) / hx) ** 2 + ((cy - p[1]) / hy) ** 2)), 0);
      peak = Math.max(peak, value);
      cells.push([cx - w / 2, cy - h / 2, value]);
    }
  for (const [cx, cy, value] of cells)
    if (value / peak > 0.04) root.append(svg("rect", { x: cx, y: cy, width: w, height: h, "shape-rendering": "crispEdges", style: `fill:${hue(1)};opacity:${(0.42 * value / peak).toFixed(3)}` }));
}

function drawPoints(group, chart, width, spec) {
  const shown = group.shown().filter((m) => spec.keys.every((key) => group.values(key, m)));
  if (!shown.length) return null;
  const height = Math.max(320, Math.min(440, width * 0.72));
  const box = { left: 58, right: width - 12, top: 10, bottom: height - 46 };
  const root = frame(width, height, spec.label);
  const [kx, ky] = spec.keys;
  const rows = shown.map((m) => ({ method: m, xs: group.values(kx, m), ys: group.values(ky, m) }));
  const reach = (key) => rows.flatMap((r) => { const v = r[key]; const [m, s] = [mean(v), deviation(v)]; return m - s > 0 ? [m - s, m + s] : [m, m + s]; });
  const x = scaleFor(reach("xs"), box.left, box.right);
  const y = scaleFor(reach("ys"), box.bottom, box.top, 0);
  axes(root, x, y, box, group.label(kx), group.label(ky));
  if (chart.state.density) shadeDensity(root, rows.filter((r) => r.method.name !== "volta").flatMap((r) => r.xs.map((v, i) => [x(v), y(Math.max(r.ys[i], y.domain[0]))])), x, y, box);
  const up = (key) => (group.data.metrics[key].up === false ? -1 : 1);
  const points = rows.map((r) => ({ method: r.method, mx: mean(r.xs), my: mean(r.ys), sx: deviation(r.xs), sy: deviation(r.ys), ours: r.method.name === "volta" }));
  for (const p of points) { p.gx = up(kx) * p.mx; p.gy = up(ky) * p.my; p.px = x(p.mx); p.py = y(p.my); }
  const front = paretoFront(points).sort((a, b) => a.px - b.px);
  if (front.length > 1) root.append(svg("path", { class: "front", d: `M${front.map((p) => `${p.px},${p.py}`).join("L")}` }));
  const sizes = spec.size ? Math.max(...points.map((p) => mean(group.values(spec.size, p.method)))) || 1 : 1;
  points.sort((a, b) => a.ours - b.ours);
  for (const p of points) {
    const bar = `stroke:${color(p.method)};stroke-width:1.2;opacity:.65`;
    p.r = spec.size ? 4 + 15 * Math.sqrt(mean(group.values(spec.size, p.method)) / sizes) : p.ours ? 8 : 6;
    const lines = [p.method.title, `${group.label(kx)} ${fixed(p.mx)} ± ${fixed(p.sx)}`, `${group.label(ky)} ${fixed(p.my)} ± ${fixed(p.sy)}`];
    if (spec.size) {
      lines.push(`${group.label(spec.size)} ${short(mean(group.values(spec.size, p.method)))}`);
      root.append(svg("circle", { cx: p.px, cy: p.py, r: p.r, "data-m": p.method.name, "data-tip": lines.join("\n"), style: `fill:${color(p.method)};fill-opacity:.32;stroke:${color(p.method)}` }));
    } else {
      root.append(svg("line", { x1: x(p.mx - p.sx), x2: x(p.mx + p.sx), y1: p.py, y2: p.py, style: bar, "data-m": p.method.name }));
      root.append(svg("line", { x1: p.px, x2: p.px, y1: y(Math.max(p.my - p.sy, y.domain[0])), y2: y(p.my + p.sy), style: bar, "data-m": p.method.name }));
    }
    root.append(marker(p.method, p.px, p.py, spec.size ? 3.5 : p.r, { "data-tip": lines.join("\n") }));
    p.label = points.length <= 12 || p.ours || front.includes(p) ? cut(p.method.title, 22) : "";
  }
  placeLabels(root, [...points].reverse(), box);
  return root;
}

const drawScatter = (group, chart, width) => drawPoints(group, chart, width, { keys: ["accuracy", "ece"], label: "Accuracy against ECE" });
const drawEfficiency = (group, chart, width) => drawPoints(group, chart, width, { keys: ["latency_ms", "ece"], size: "size_mb", label: "Latency against ECE" });
