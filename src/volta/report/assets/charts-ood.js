// Curves of OOD detection between 0 and 1: ROC, precision against recall.
register("ood_lines", (group, chart, width) => {
  const { x: grid, labels, area, diagonal, sets } = chart.data;
  const lines = sets[chart.state.ood] || {};
  const shown = oursLast(group.shown().filter((m) => lines[m.name]));
  if (!shown.length) return null;
  const height = Math.max(320, Math.min(440, width * 0.72));
  const box = { left: 58, right: width - 112, top: 10, bottom: height - 46 };
  const root = frame(width, height, `${labels[1]} against ${labels[0]}`);
  const x = line(0, 1, box.left, box.right);
  const y = line(0, 1, box.bottom, box.top);
  const brief = (words) => (width < 460 ? words.split(":")[0] : words);
  axes(root, x, y, box, brief(labels[0]), brief(labels[1]));
  if (diagonal) root.append(svg("line", { class: "rule", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }));
  const best = [...shown].sort((a, b) => lines[b.name].area - lines[a.name].area);
  const muted = (m) => shown.length > 12 && best.indexOf(m) >= 5;
  for (const m of shown) {
    const d = `M${grid.map((v, i) => `${x(v).toFixed(1)},${y(lines[m.name].mean[i]).toFixed(1)}`).join("L")}`;
    root.append(svg("path", { d, "data-m": m.name, style: lineStyle(m, muted(m)) }));
    const reach = root.appendChild(svg("path", { d, "data-tip": `${m.title}\n${area} ${fixed(lines[m.name].area)}`, style: "fill:none;stroke:transparent;stroke-width:10" }));
    reach.addEventListener("pointerenter", () => group.highlight(m.name));
    reach.addEventListener("pointerleave", () => group.highlight(null));
  }
  // Lines end together, so that names stand in order of area.
  nameLines(root, best.map((m) => ({ method: m, y: box.top + 8 })), box);
  return root;
});
