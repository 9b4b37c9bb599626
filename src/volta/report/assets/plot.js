// What every chart shares: scales, axes, marks in a method's look, and saving as SVG or PNG.
const line = (d0, d1, r0, r1) => { const scale = (v) => r0 + ((v - d0) / (d1 - d0 || 1)) * (r1 - r0); scale.domain = [d0, d1]; scale.log = false; return scale; };
const logline = (d0, d1, r0, r1) => { const inner = line(Math.log(d0), Math.log(d1), r0, r1); const scale = (v) => inner(Math.log(v)); scale.domain = [d0, d1]; scale.log = true; return scale; };

function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) ticks.push(i * step);
  return ticks;
}
function logTicks(low, high) {
  const ticks = [];
  const wide = Math.log10(high / low) > 3;
  for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d += 1)
    for (const m of wide ? [1] : [1, 2, 5]) { const t = m * 10 ** d; if (t >= low && t <= high) ticks.push(t); }
  return ticks;
}
function ticksOf(scale, count) {
  const round = scale.log ? logTicks(...scale.domain) : [];
  // Within half a decade there may be one round power or none.
  const ticks = round.length > 2 ? round : niceTicks(...scale.domain, count);
  return scale.whole ? ticks.filter(Number.isInteger) : ticks;
}
const minus = (words) => words.replace("-", "−");
const short = (v, digits = 3) => (v === null || v === undefined ? "–" : minus(Math.abs(v) < 1e-9 ? "0" : v.toLocaleString("en", { maximumSignificantDigits: digits })));
const fixed = (v) => (v === null || v === undefined ? "–" : Math.abs(v) < 10 ? minus(v.toFixed(4)) : short(v));
const cut = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);
function extent(values, margin = 0.06, floor = null) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  const pad = (high - low) * margin || Math.abs(high) * 0.05 || 0.05;
  low -= pad;
  high += pad;
  return [floor === null ? low : Math.max(floor, low), high];
}
function scaleFor(values, r0, r1, log, floor = null) {
  if (log) return logline(Math.min(...values) / 1.2, Math.max(...values) * 1.2, r0, r1);
  return line(...extent(values, 0.08, floor), r0, r1);
}

// A drawing is registered once, by kind: draw(group, chart, width) returns an SVG or null, extra(chart) more to stand above it.
// chart.data holds its numbers, chart.state what the reader has chosen. Whatever is to be computed comes computed.
const DRAWINGS = new Map();
function register(kind, draw, extra = null) { DRAWINGS.set(kind, { draw, extra }); }
const oursLast = (methods) => [...methods].sort((a, b) => a.ours - b.ours);
const named = (method) => method.label || method.title;
const boldOurs = (method) => (method.ours ? "font-weight:700" : "");
function inOrder(methods, values, up) {
  // By value, the better end first; methods without one come last.
  const known = methods.map((m) => [m, values[m.name] ?? null]);
  return known.sort((a, b) => (a[1] === null) - (b[1] === null) || (up ? b[1] - a[1] : a[1] - b[1])).map((item) => item[0]);
}
const seedLines = (seeds) => seeds.map(([seed, value]) => `seed ${seed}: ${fixed(value)}`);

const color = (method) => `var(--m${method.hue})`;
const hue = (index) => `var(--m${index})`;

function markerPath(kind, r) {
  const poly = (n, turn) => Array.from({ length: n }, (_, i) => { const a = turn + (2 * Math.PI * i) / n; return `${(r * Math.cos(a)).toFixed(2)},${(r * Math.sin(a)).toFixed(2)}`; });
  const closed = (points) => `M${points.join("L")}Z`;
  const up = -Math.PI / 2;
  const w = r * 0.36;
  const plus = `M${-w},${-r}H${w}V${-w}H${r}V${w}H${w}V${r}H${-w}V${w}H${-r}V${-w}H${-w}Z`;
  const shapes = {
    s: `M${-r * 0.85},${-r * 0.85}h${r * 1.7}v${r * 1.7}h${-r * 1.7}Z`, "^": closed(poly(3, up)), v: closed(poly(3, -up)),
    "<": closed(poly(3, Math.PI)), ">": closed(poly(3, 0)), D: closed(poly(4, up)), d: `M0,${-r}L${r * 0.6},0L0,${r}L${-r * 0.6},0Z`,
    P: plus, X: plus, h: closed(poly(6, up)), p: closed(poly(5, up)),
  };
  return shapes[kind] || `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
}
function marker(method, x, y, r, more) {
  const turn = method.marker === "X" ? " rotate(45)" : "";
  return svg("path", { d: markerPath(method.marker, r), transform: `translate(${x},${y})${turn}`, "data-m": method.name, style: `fill:${color(method)};stroke:var(--card);stroke-width:1`, ...more });
}
const text = (x, y, words, more) => { const node = svg("text", { x, y, ...more }); node.textContent = words; return node; };

function frame(width, height, label) {
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}
function axes(root, x, y, box, xLabel, yLabel) {
  for (const t of ticksOf(y, 5)) {
    root.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y(t), y2: y(t) }));
    root.append(text(box.left - 6, y(t) + 4, short(t, 5), { class: "quiet", "text-anchor": "end" }));
  }
  const count = Math.max(2, Math.floor((box.right - box.left) / 60));
  let last = -Infinity;
  for (const t of ticksOf(x, count)) {
    root.append(svg("line", { class: "grid", x1: x(t), x2: x(t), y1: box.top, y2: box.bottom }));
    if (x(t) - last > 34) { root.append(text(x(t), box.bottom + 16, short(t, 5), { class: "quiet", "text-anchor": "middle" })); last = x(t); }
  }
  root.append(svg("path", { class: "axis", d: `M${box.left},${box.top}V${box.bottom}H${box.right}` }));
  root.append(text((box.left + box.right) / 2, box.bottom + 34, xLabel, { "text-anchor": "middle" }));
  root.append(text(0, 0, yLabel, { "text-anchor": "middle", transform: `translate(13,${(box.top + box.bottom) / 2}) rotate(-90)` }));
}

// Lines with a name each would cover one another: the best few carry theirs at the end of the line, the others on hover.
function nameLines(root, ends, box, few = 5) {
  const wanted = ends.filter((end, place) => place < few || end.method.ours).sort((a, b) => a.y - b.y);
  const places = wanted.map((end) => end.y);
  places.forEach((y, i) => { places[i] = Math.max(y, i ? places[i - 1] + 13 : box.top); });
  // What has run below the plot moves up again.
  for (let i = places.length - 1, limit = box.bottom; i >= 0; i -= 1, limit = places[i + 1] - 13) places[i] = Math.min(places[i], limit);
  wanted.forEach((end, i) => {
    root.append(svg("line", { x1: box.right + 4, x2: box.right + 12, y1: places[i], y2: places[i], "data-m": end.method.name, style: `stroke:${color(end.method)};stroke-width:2.5` }));
    root.append(text(box.right + 15, places[i] + 4, cut(named(end.method), 16), { class: "small", "data-m": end.method.name, style: boldOurs(end.method) }));
  });
}
const lineStyle = (m, muted) => `fill:none;stroke:${color(m)};stroke-width:${m.ours ? 3 : muted ? 1.1 : 1.8};stroke-dasharray:${m.dash || "none"};opacity:${muted && !m.ours ? 0.45 : 1}`;

const COPIED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-size", "font-family", "font-weight", "text-anchor"];
function standalone(node) {
  // Colours come from the page's style sheet; a saved file has to carry them itself.
  const copy = node.cloneNode(true);
  const pairs = [[node, copy]];
  while (pairs.length) {
    const [from, to] = pairs.pop();
    const style = getComputedStyle(from);
    to.setAttribute("style", COPIED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "data-tip", "data-m", "tabindex"]) to.removeAttribute(name);
    for (let i = 0; i < from.children.length; i += 1) pairs.push([from.children[i], to.children[i]]);
  }
  copy.setAttribute("xmlns", SVG);
  copy.prepend(svg("rect", { width: "100%", height: "100%", style: `fill:${getComputedStyle(document.documentElement).getPropertyValue("--card")}` }));
  return new XMLSerializer().serializeToString(copy);
}
function saveChart(chart, kind) {
  const node = chart.querySelector(".plot svg");
  if (!node) return;
  const name = chart.dataset.chart;
  const source = standalone(node);
  if (kind === "svg") { saveFile(`${name}.svg`, source, "image/svg+xml"); return; }
  const image = new Image();
  image.onload = () => {
    const canvas = html("canvas", { width: node.width.baseVal.value * 2, height: node.height.baseVal.value * 2 });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => saveFile(`${name}.png`, blob));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
}
