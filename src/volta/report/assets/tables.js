// Tables: sort by any column, filter rows by words, choose families of columns, walk cells with arrow keys, save as CSV.
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
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, place) => ({ row, place, value: cellValue(row.cells[index]) }));
  rows.sort((a, b) => compareCells(a.value, b.value, down) || a.place - b.place);
  body.append(...rows.map((item) => item.row));
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (at === index) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

function chooseFamily(box, family) {
  const table = box.querySelector("table");
  const on = [...table.tHead.rows[0].cells].map((head) => {
    const families = (head.dataset.families || "").split(" ").filter(Boolean);
    return !families.length || families.includes(family);
  });
  for (const row of table.rows) [...row.cells].forEach((cell, at) => cell.classList.toggle("off", !on[at]));
  box.querySelectorAll("[data-family]").forEach((chip) => chip.setAttribute("aria-pressed", chip.dataset.family === family));
}

function filterRows(box, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of box.querySelector("table").tBodies[0].rows) {
    const text = `${row.textContent} ${row.dataset.name} ${row.dataset.kind}`.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
}

function csvField(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function tableCsv(table) {
  const heads = [...table.tHead.rows[0].cells];
  const spread = heads.map((_, at) => [...table.tBodies[0].rows].some((row) => row.cells[at].dataset.s !== undefined));
  const lines = [heads.flatMap((head, at) => (spread[at] ? [`${head.dataset.key}_mean`, `${head.dataset.key}_std`] : [head.dataset.key]))];
  for (const row of table.tBodies[0].rows) {
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
    const rows = [...table.tBodies[0].rows].filter((item) => !item.hidden);
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
  table.tBodies[0].addEventListener("keydown", (event) => {
    const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    const cell = event.target.closest("td, th");
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

function startTables() {
  document.querySelectorAll(".table-box").forEach((box) => {
    const table = box.querySelector("table");
    table.tHead.querySelectorAll("th button").forEach((button) => {
      button.addEventListener("click", () => {
        const head = button.closest("th");
        const sorted = head.getAttribute("aria-sort");
        // The better end comes first on the first click.
        const down = sorted ? sorted === "ascending" : head.dataset.arrow === "↑";
        sortTable(table, head.cellIndex, down);
      });
    });
    box.querySelectorAll("[data-family]").forEach((chip) => chip.addEventListener("click", () => chooseFamily(box, chip.dataset.family)));
    const search = box.querySelector("input[type=search]");
    if (search) search.addEventListener("input", () => filterRows(box, search.value));
    box.querySelector("[data-csv]").addEventListener("click", () => saveFile(`${table.id}.csv`, tableCsv(table), "text/csv"));
    walkCells(table);
  });
}
