// Tables: sort by any column and undo it, filter rows by words, choose columns, walk cells with arrow keys, save as CSV.
// Rows of methods on one network stand together where a reader asks for it.
const bodyRows = (table) => [...table.tBodies[0].rows];
function cellValue(cell) {
  if (!cell) return null;
  const raw = cell.dataset.v;
  if (raw === undefined || raw === "") return null;
  return cell.classList.contains("num") ? Number(raw) : raw;
}

function compareCells(a, b, down) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;  // empty cells stay last either way
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

function sortTable(table, index, down) {
  // index null: the order the page came with, or that a reader's weights gave.
  const rows = bodyRows(table).map((row) => ({ row, place: Number(row.dataset.place), value: cellValue(row.cells[index]) }));
  rows.sort((a, b) => (index === null ? 0 : compareCells(a.value, b.value, down)) || a.place - b.place);
  if (table.closest(".table-box").querySelector('[data-together][aria-pressed="true"]')) {
    const first = new Map();
    rows.forEach((item, at) => {
      const network = item.row.dataset.network || at;
      if (!first.has(network)) first.set(network, at);
      item.at = first.get(network);
    });
    rows.sort((a, b) => a.at - b.at);
  }
  table.tBodies[0].append(...rows.map((item) => item.row));
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (at === index) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

function showColumns(box) {
  // Of many columns the first few are shown, until a reader asks for all.
  const table = box.querySelector("table");
  const pressed = box.querySelector('[data-family][aria-pressed="true"]');
  const all = box.querySelector("[data-all]");
  const limit = all && all.getAttribute("aria-pressed") !== "true" ? Number(box.dataset.columns) : Infinity;
  let count = 0;
  const on = [...table.tHead.rows[0].cells].map((head) => {
    const families = (head.dataset.families || "").split(" ").filter(Boolean);
    if (families.length && pressed && !families.includes(pressed.dataset.family)) return false;
    count += 1;
    return count <= limit;
  });
  for (const row of table.rows) [...row.cells].forEach((cell, at) => cell.classList.toggle("off", !on[at]));
  if (all) all.textContent = limit === Infinity ? "Fewer columns" : `All columns (${count})`;
  if (all) all.hidden = count <= Number(box.dataset.columns);
}

function showRows(box) {
  const table = box.querySelector("table");
  const words = (box.querySelector("input[type=search]") || { value: "" }).value.trim();
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const fold = box.querySelector("[data-unfold]");
  const unfolded = fold && fold.getAttribute("aria-pressed") === "true";
  const group = groupOf(box);
  const rows = bodyRows(table);
  let nOff = 0;
  for (const row of rows) {
    const off = group ? row.dataset.method.split("\n").every((name) => group.isOff(name)) : false;
    const text = `${row.textContent} ${row.dataset.name} ${row.dataset.kind}`.toLowerCase();
    if (off) nOff += 1;
    row.hidden = off || (row.dataset.folded === "yes" && !unfolded && !words) || !wanted.every((word) => text.includes(word));
  }
  const note = box.querySelector(".nothing");
  const parts = [];
  if (rows.every((row) => row.hidden) && wanted.length) parts.push(`No row matches "${words}".`);
  if (nOff) parts.push(`${nOff} ${nOff === 1 ? "row is" : "rows are"} hidden, of methods switched off in the list next to the figures. `);
  note.replaceChildren(...parts);
  if (nOff) note.append(html("button", { type: "button", class: "button", onclick: () => group.reset() }, "Show them"));
  note.hidden = !parts.length;
}

function csvField(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function tableCsv(table) {
  const heads = [...table.tHead.rows[0].cells];
  const spread = heads.map((_, at) => bodyRows(table).some((row) => row.cells[at].dataset.s !== undefined));
  const lines = [heads.flatMap((head, at) => (spread[at] ? [`${head.dataset.key}_mean`, `${head.dataset.key}_std`] : [head.dataset.key]))];
  for (const row of bodyRows(table)) {
    if (row.hidden) continue;
    lines.push([...row.cells].flatMap((cell, at) => (spread[at] ? [cell.dataset.v, cell.dataset.s] : [cell.dataset.v])));
  }
  return `${lines.map((line) => line.map(csvField).join(",")).join("\n")}\n`;
}

function walkCells(table) {
  // One cell takes part in the tab order; arrows move it, so a keyboard reader gets every per-seed value.
  let current = table.querySelector("tbody td[data-tip]");
  if (!current) return;
  current.tabIndex = 0;
  const step = (row, column, down, right) => {
    const rows = bodyRows(table).filter((item) => !item.hidden);
    let at = rows.indexOf(row) + down;
    let place = column + right;
    while (rows[at] && rows[at].cells[place]) {
      const cell = rows[at].cells[place];
      if (cell.dataset.tip && !cell.classList.contains("off")) return cell;
      at += down;
      place += right;
    }
    return null;
  };
  table.addEventListener("keydown", (event) => {
    const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    const cell = event.target.closest("tbody td, tbody th");
    if (!move || !cell) return;
    const next = step(cell.parentElement, cell.cellIndex, ...move);
    if (!next) return;
    event.preventDefault();
    current.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    current = next;
  });
}

const groupOf = (node) => { const section = node.closest("section.group"); return section ? section.group : null; };
const toggle = (button) => button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");

function startTables() {
  document.querySelectorAll(".table-box").forEach((box) => {
    const table = box.querySelector("table");
    bodyRows(table).forEach((row, place) => { row.dataset.place = place; });
    table.tHead.querySelectorAll("th button").forEach((button) => {
      button.addEventListener("click", () => {
        const head = button.closest("th");
        const sorted = head.getAttribute("aria-sort");
        // The better end comes first on the first click; the third click undoes it.
        const down = sorted ? sorted === "ascending" : head.dataset.arrow === "↑";
        const again = sorted && (sorted === "descending") === (head.dataset.arrow !== "↑");
        sortTable(table, again ? null : head.cellIndex, down);
      });
    });
    const families = [...box.querySelectorAll("[data-family]")];
    families.forEach((chip) => chip.addEventListener("click", () => {
      families.forEach((other) => other.setAttribute("aria-pressed", other === chip));
      showColumns(box);
    }));
    const inOrder = () => { const head = table.querySelector("th[aria-sort]"); sortTable(table, head ? head.cellIndex : null, head ? head.getAttribute("aria-sort") === "descending" : false); };
    for (const [name, show] of [["[data-all]", showColumns], ["[data-unfold]", showRows], ["[data-together]", inOrder]]) {
      const button = box.querySelector(name);
      if (button) button.addEventListener("click", () => { toggle(button); show(box); });
    }
    box.querySelector("input[type=search]").addEventListener("input", () => showRows(box));
    box.querySelector("[data-csv]").addEventListener("click", () => saveFile(`${table.id}.csv`, tableCsv(table), "text/csv"));
    showColumns(box);
    walkCells(table);
  });
}
