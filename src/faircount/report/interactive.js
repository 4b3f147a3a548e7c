// Tables that can be sorted and filtered, and the entries behind a row. Texts enter a page as text nodes only.
const LEAST_SORTED = 3;
const LEAST_FILTERED = 16;

const isNumber = (text) => /^[-+−]?[\d.,]+/.test(text);

function keyOf(cell) {
  const shown = cell && (cell.querySelector("bdi") || cell);
  const text = shown ? shown.textContent.trim().replace("−", "-") : "";
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


// The entries behind a row of a breakdown, or behind its bar.
function behind(article, entries) {
  for (const heading of article.querySelectorAll("section > :is(h2, h3, h4)")) {
    const section = heading.parentElement;
    const values = entries.fields[heading.textContent];
    const table = section.querySelector("table.grid");
    if (!values || !table) continue;
    const bars = [...section.querySelectorAll("svg.fc-bars text")];
    const list = document.createElement("div");
    list.className = "behind-entries";
    list.tabIndex = -1;
    list.setAttribute("role", "region");
    list.hidden = true;
    (table.closest(".scroll") || table).after(list);
    let open = null;
    const show = (value, button) => {
      for (const one of section.querySelectorAll(".behind")) one.setAttribute("aria-expanded", "false");
      list.hidden = open === value;
      open = list.hidden ? null : value;
      if (list.hidden) return;
      button.setAttribute("aria-expanded", "true");
      const found = values.map((one, at) => at).filter((at) => values[at] === value);
      const lines = document.createElement("ol");
      lines.append(...found.map((at) => {
        const item = document.createElement("li");
        const id = document.createElement("bdi");
        id.textContent = entries.ids[at];
        item.append(id, ` ${entries.outcomes[at]}${entries.lines.length ? `, line ${entries.lines[at].toLocaleString("en-GB")}` : ""}`);
        return item;
      }));
      const said = document.createElement("p");
      const left = entries.total - entries.ids.length;
      said.textContent = `${value}: ${found.length.toLocaleString("en-GB")} entries${left ? ` among the first ${entries.ids.length.toLocaleString("en-GB")}; ${left.toLocaleString("en-GB")} others are not in this file` : ""}.`;
      list.setAttribute("aria-label", said.textContent);
      list.replaceChildren(said, lines);
      list.focus();
    };
    for (const row of table.tBodies[0].rows) {
      const name = row.querySelector("th bdi");
      if (!name || !values.includes(name.textContent)) continue;
      const value = name.textContent;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "behind";
      button.textContent = "entries";
      button.setAttribute("aria-expanded", "false");
      button.setAttribute("aria-label", `Show the entries of ${value}`);
      button.addEventListener("click", () => show(value, button));
      name.after(button);
      const bar = bars.find((text) => text.textContent === value)?.closest("g[transform]");
      if (!bar) continue;
      bar.classList.add("behind-row");
      bar.addEventListener("click", () => show(value, button));
    }
  }
}

const ofPage = document.getElementById("entries");
if (ofPage && !document.querySelector(".view")) {
  const articles = document.querySelectorAll("main > article");
  JSON.parse(ofPage.textContent).forEach((entries, number) => { if (articles[number]) behind(articles[number], entries); });
}
for (const table of document.querySelectorAll("table.grid:not(.entries)")) {
  if (!table.tHead || !table.tBodies[0]) continue;
  if (table.tBodies[0].rows.length >= LEAST_SORTED) sortable(table);
  if (table.tBodies[0].rows.length >= LEAST_FILTERED && !table.closest(".view")) filterable(table);
}
