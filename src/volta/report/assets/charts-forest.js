// Forest: the mean rank of every method with its interval, in order; a reader's weights give another order, also of the table.
function weightedRanks(data, care) {
  const total = Object.values(care.weights).reduce((sum, weight) => sum + weight, 0);
  const mean = (name) => Object.entries(care.weights).reduce((sum, [key, weight]) => sum + weight * data.ranks[key][name], 0) / total;
  return Object.fromEntries(Object.keys(data.methods).map((name) => [name, mean(name)]));
}

register("forest", (group, chart, width) => {
  const { methods } = chart.data;
  const care = chart.data.cares.find((one) => one.key === chart.state.care) || chart.data.cares[0];
  const equal = care === chart.data.cares[0];
  const plain = Object.fromEntries(Object.entries(methods).map(([name, row]) => [name, row.mean]));
  const means = equal ? plain : weightedRanks(chart.data, care);
  const shown = inOrder(inOrder(group.shown().filter((m) => methods[m.name]), plain, false), means, false);
  if (!shown.length) return null;
  const names = Math.min(210, Math.max(112, width * 0.34));
  const rowHeight = 20;
  const box = { left: names, right: width - 40, top: 6, bottom: 6 + shown.length * rowHeight };
  const root = frame(width, box.bottom + 42, "Mean rank of every method");
  const ends = shown.flatMap((m) => (equal ? [methods[m.name].low, methods[m.name].high, means[m.name]] : [means[m.name]])).filter((v) => v !== null);
  const x = line(1, Math.max(2, ...ends), box.left, box.right);
  for (const t of niceTicks(...x.domain, Math.max(3, Math.floor((box.right - box.left) / 60)))) {
    root.append(svg("line", { class: "grid", x1: x(t), x2: x(t), y1: box.top, y2: box.bottom }));
    root.append(text(x(t), box.bottom + 16, short(t, 5), { class: "quiet", "text-anchor": "middle" }));
  }
  shown.forEach((m, at) => {
    const { low, high, best } = methods[m.name];
    const y = box.top + (at + 0.5) * rowHeight;
    const words = [m.title, `mean rank ${means[m.name].toFixed(2)}`];
    if (equal && low !== null) words.push(`95 %: ${low.toFixed(1)} to ${high.toFixed(1)}`);
    if (chart.data.tested) words.push(best ? "in the confidence set of the best on every ranked metric" : "significantly worse than some method on a ranked metric");
    if (best) root.append(svg("rect", { x: 0, width, y: y - rowHeight / 2, height: rowHeight, style: "fill:var(--better);opacity:.1" }));
    root.append(text(names - 8, y + 4, cut(m.title, Math.floor((names - 8) / 7)), { "text-anchor": "end", "data-m": m.name, style: boldOurs(m) }));
    if (equal && low !== null) root.append(svg("line", { x1: x(low), x2: x(high), y1: y, y2: y, "data-m": m.name, style: `stroke:${m.ours ? color(m) : "var(--faint)"};stroke-width:2` }));
    root.append(svg("circle", { cx: x(means[m.name]), cy: y, r: m.ours ? 5.5 : 4, "data-m": m.name, style: `fill:${m.ours ? color(m) : "var(--ink)"}` }));
    root.append(text(width - 34, y + 4, means[m.name].toFixed(1), { class: "small quiet", "data-m": m.name }));
    root.append(svg("rect", { x: 0, width, y: y - rowHeight / 2, height: rowHeight, "data-tip": words.join("\n"), "data-m": m.name, style: "fill:transparent;cursor:pointer", onclick: () => tellOf(m) }));
  });
  root.append(text((box.left + box.right) / 2, box.bottom + 34, equal ? "mean rank (1 is best)" : "weighted mean rank (1 is best), without an interval", { "text-anchor": "middle" }));
  return root;
}, (chart, group) => {
  const weights = html("p", { class: "weights" });
  const buttons = chart.data.cares.map((care) => html("button", { type: "button", class: "chip", "aria-pressed": String(care === chart.data.cares[0]), onclick: () => choose(care) }, care.label));
  const tell = (care) => { weights.textContent = `Weights: ${Object.entries(care.weights).map(([key, weight]) => `${chart.data.labels[key]} × ${weight}`).join(", ")}.`; };
  const choose = (care) => {
    chart.state.care = care.key;
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", chart.data.cares[at] === care));
    tell(care);
    chart.draw();
    const means = care === chart.data.cares[0] ? null : weightedRanks(chart.data, care);
    const table = group.section.querySelector('table[id^="leaderboard-"]');
    bodyRows(table).forEach((row, at) => { row.dataset.first = row.dataset.first || row.dataset.place; row.dataset.place = means ? (means[row.dataset.method] ?? 1e6 + at) : row.dataset.first; });
    sortTable(table, null, false);
  };
  tell(chart.data.cares[0]);
  return html("div", { class: "cares" }, html("span", {}, "I care about "), ...buttons, weights);
});

// What a click on a method's name tells of it.
function tellOf(method) {
  const about = method.about || {};
  const part = (title, words, tag = "p") => (words ? [html("h3", {}, title), html(tag, {}, words)] : []);
  const close = html("button", { type: "button", class: "button", onclick: () => box.close() }, "Close");
  const box = html("dialog", { class: "about-box", "aria-label": method.title, onclose: () => box.remove(), onclick: (event) => { if (event.target === box) box.close(); } },
    html("h2", {}, method.title),
    ...part("Strengths in this run", method.best.length ? `In the confidence set of the best on ${method.best.join(", ")}.` : ""),
    ...part("Formula", about.formula), ...part("Paper", about.reference), ...part("Code", about.code, "pre"), close);
  if (!about.formula) box.insertBefore(html("p", {}, "No description: not a method of this package."), close);
  document.body.append(box);
  box.showModal();
}
