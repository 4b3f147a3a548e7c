// Tables that can be sorted and filtered, and the entries behind a row. Texts enter a page as text nodes only.
const LEAST_SORTED = 3;
const LEAST_FILTERED = 16;

const isNumber = (text) => /^[-+−]?[\d.,]+/.test(text);

function keyOf(cell) {
  const text = cell ? cell.textContent.trim().replace("−", "-") : "";
  return isNumber(text) ? Number.parseFloat(text.replaceAll(",", "")) : text.toLowerCase();
}

function sortBy(table, column, head) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const one of table.tHead.rows[0].cells) if (one.hasAttribute("aria-sort")) one.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row, place) => [keyOf(row.cells[column]), place, row]);
  const turn = descending ? -1 : 1;
  // Numbers before words, whatever the direction; what is alike stays in its order.
  keyed.sort(([a, at], [b, other]) => (typeof a).localeCompare(typeof b) || turn * (a < b ? -1 : a > b ? 1 : 0) || at - other);
  body.append(...keyed.map(([, , row]) => row));
}

function sortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const words = head.textContent.trim();
    if (head.tagName !== "TH" || !words || head.querySelector(".axis, a") || head.classList.contains("interval-cell")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => sortBy(table, column, head));
  });
}

function filterable(table) {
  const label = document.createElement("label");
  label.className = "filter";
  const field = document.createElement("input");
  const shown = document.createElement("span");
  field.type = "search";
  field.autocomplete = "off";
  shown.setAttribute("role", "status");
  label.append("Filter ", field, shown);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    shown.textContent = words.length ? ` ${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
  });
  (table.closest(".scroll") || table).before(label);
}

for (const table of document.querySelectorAll("table.grid:not(.entries)")) {
  if (!table.tHead || !table.tBodies[0]) continue;
  if (table.tBodies[0].rows.length >= LEAST_SORTED) sortable(table);
  if (table.tBodies[0].rows.length >= LEAST_FILTERED && !table.closest(".view")) filterable(table);
}
