// Points: methods in the plane of two metrics, with bars of one deviation or bubbles, the front, and a density behind.
function placeLabels(root, points, box) {
  const taken = points.map((p) => [p.px - p.r, p.py - p.r, p.px + p.r, p.py + p.r]);
  const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  for (const p of points.filter((q) => q.label)) {
    const width = p.label.length * (p.method.ours ? 7.6 : 6.4);
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
    // A name that finds no room is left to the hover.
    if (best.cost > 60 && !p.method.ours) continue;
    taken.push(best.area);
    root.append(text(best.x, best.y + 4, p.label, { "data-m": p.method.name, style: `paint-order:stroke;stroke:var(--card);stroke-width:3;${boldOurs(p.method)}` }));
  }
}

function shadeDensity(root, density, x, y, box) {
  const inside = (v, low, high) => Math.max(low, Math.min(high, v));
  const across = density.x.map((v) => inside(x(v), box.left, box.right));
  const down = density.y.map((v) => inside(y(Math.max(v, y.domain[0])), box.top, box.bottom));
  density.shares.forEach((row, j) => row.forEach((share, i) => {
    const [width, height] = [across[i + 1] - across[i], down[j] - down[j + 1]];
    if (share <= 0.04 || width <= 0 || height <= 0) return;
    root.append(svg("rect", { x: across[i], y: down[j + 1], width, height, "shape-rendering": "crispEdges", style: `fill:${hue(1)};opacity:${(0.42 * share).toFixed(3)}` }));
  }));
}

// Beyond four interquartile ranges an outlier stands at the edge, with an arrow: it would push all others into a corner.
function fence(values, log) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => sorted[Math.floor(share * (sorted.length - 1))];
  const room = log || sorted.length < 4 ? Infinity : 4 * (at(0.75) - at(0.25)) || Infinity;
  return (v) => Math.min(Math.max(v, at(0.25) - room), at(0.75) + room);
}

register("points", (group, chart, width) => {
  const data = chart.data;
  const shown = group.shown().filter((m) => data.points[m.name]);
  if (!shown.length) return null;
  const height = Math.max(320, Math.min(440, width * 0.72));
  const box = { left: 58, right: width - 12, top: 10, bottom: height - 46 };
  const root = frame(width, height, data.label);
  const points = shown.map((m) => ({ method: m, ...data.points[m.name] }));
  const reach = (at, std) => points.flatMap((p) => [p[at] > p[std] ? p[at] - p[std] : p[at], p[at] + p[std]]);
  const [insideX, insideY] = [fence(points.map((p) => p.x), data.x.log), fence(points.map((p) => p.y), data.y.log)];
  const flatX = scaleFor(reach("x", "x_std").map(insideX), box.left, box.right, data.x.log);
  const flatY = scaleFor(reach("y", "y_std").map(insideY), box.bottom, box.top, data.y.log, 0);
  const x = Object.assign((v) => flatX(insideX(v)), flatX);
  const y = Object.assign((v) => flatY(insideY(v)), flatY);
  axes(root, x, y, box, data.x.label, data.y.label);
  if (chart.state.density && data.density) shadeDensity(root, data.density, x, y, box);
  for (const p of points) { p.px = x(p.x); p.py = y(p.y); p.front = !p.beaten_by.some((name) => group.on.has(name)); }
  const front = points.filter((p) => p.front).sort((a, b) => a.px - b.px);
  if (front.length > 1) root.append(svg("path", { class: "front", d: `M${front.map((p) => `${p.px},${p.py}`).join("L")}` }));
  const largest = Math.max(...points.map((p) => p.size)) || 1;
  points.sort((a, b) => a.method.ours - b.method.ours || a.front - b.front);
  for (const p of points) {
    const muted = points.length > 12 && !p.front && !p.method.ours;
    const bar = `stroke:${color(p.method)};stroke-width:1.2;opacity:${muted ? 0.3 : 0.65}`;
    p.r = data.size ? 4 + 15 * Math.sqrt(p.size / largest) : p.method.ours ? 8 : 6;
    const lines = [p.method.title, `${data.x.label} ${fixed(p.x)} ± ${fixed(p.x_std)}`, `${data.y.label} ${fixed(p.y)} ± ${fixed(p.y_std)}`];
    if (data.size) {
      lines.push(`${data.size} ${short(p.size)}`);
      root.append(svg("circle", { cx: p.px, cy: p.py, r: p.r, "data-m": p.method.name, "data-tip": lines.join("\n"), style: `fill:${color(p.method)};fill-opacity:.32;stroke:${color(p.method)}` }));
    } else {
      root.append(svg("line", { x1: x(Math.max(p.x - p.x_std, x.log ? x.domain[0] : -Infinity)), x2: x(p.x + p.x_std), y1: p.py, y2: p.py, style: bar, "data-m": p.method.name }));
      root.append(svg("line", { x1: p.px, x2: p.px, y1: y(Math.max(p.y - p.y_std, y.domain[0])), y2: y(p.y + p.y_std), style: bar, "data-m": p.method.name }));
    }
    const beyond = `${p.x < insideX(p.x) ? "◂" : p.x > insideX(p.x) ? "▸" : ""}${p.y > insideY(p.y) ? "▴" : p.y < insideY(p.y) ? "▾" : ""}`;
    if (beyond) root.append(text(p.px, p.py - p.r - 3, `${beyond} ${short(p.x)}, ${short(p.y)}`, { class: "small quiet", "text-anchor": p.px > (box.left + box.right) / 2 ? "end" : "start", "data-m": p.method.name }));
    root.append(marker(p.method, p.px, p.py, data.size ? 3.5 : p.r, { "data-tip": lines.join("\n"), opacity: muted ? 0.5 : 1 }));
    p.label = points.length <= 12 || p.method.ours || p.front ? cut(named(p.method), 22) : "";
  }
  placeLabels(root, [...points].reverse(), box);
  return root;
});
