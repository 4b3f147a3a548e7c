// The lists and entries of an export, from the data in their pages. Texts enter a page as text nodes only.
const PER_PAGE = 50;

function made(name, kind, ...children) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  element.append(...children.filter((child) => child !== "" && child !== null));
  return element;
}

function linked(href, kind, ...children) {
  const link = made("a", kind, ...children);
  link.href = href;
  return link;
}

function island(name) {
  const element = document.getElementById(name);
  return element && JSON.parse(element.textContent);
}

const unseen = (words) => made("span", "unseen", words);
const bdi = (text) => made("bdi", "", text);
const missing = () => made("span", "missing", "(none)");
const count = (number) => number.toLocaleString("en-GB");
const badge = (outcome, words) => made("span", `outcome ${outcome}`, words[outcome] || outcome);
const asked = () => new URLSearchParams(location.hash.slice(1));

function exported() {
  const wide = matchMedia("(min-width: 60rem)");
  for (const box of document.querySelectorAll("details[data-open-wide]")) box.open = wide.matches;
  const list = island("list");
  if (list) entryList(list);
  const entries = island("entries");
  if (entries) entryPages(entries);
}

// -- lists ------------------------------------------------------------------------------------------------------

function entryList(list) {
  const total = list.ids.length;
  const fields = new Map(list.fields.map((field) => [field.name, field]));
  const sets = new Map(list.sets.map(([name, value, words, places]) => [`${name} ${value}`, { words, places: new Set(places) }]));
  const placeOf = (at) => (list.places ? list.places[at] : at);
  const together = new Set(list.together);
  const address = (at) => {
    if (together.has(list.lines[at])) return `${list.beside}${list.lines[at]}.html`;
    const place = placeOf(at);
    let low = 0;
    let high = list.begins.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (list.begins[middle] <= place) low = middle;
      else high = middle - 1;
    }
    const rest = asked();
    rest.delete("offset");
    rest.set("line", list.lines[at]);
    return `${list.page}${String(low + 1).padStart(4, "0")}.html#${rest}`;
  };
  const wanted = asked().get("open");
  if (wanted && list.lines.indexOf(Number(wanted)) >= 0) {
    history.replaceState(null, "", "#");
    location.replace(address(list.lines.indexOf(Number(wanted))));
    return;
  }

  let haystack = null;
  const texts = list.columns.filter((column) => column.kind === "text").map((column) => column.texts);
  const words = (field, number) => {
    const value = field.values[number];
    return value !== null && field.words && field.words[value] ? field.words[value] : value;
  };
  const searchable = (at) => {
    haystack ||= new Array(total);
    haystack[at] ||= [list.ids[at], ...texts.map((one) => one[at]), ...list.fields.map((field) => words(field, field.codes[at]) || "")].join("\n").toLowerCase();
    return haystack[at];
  };

  // What the address says: which values are wanted of each field, any of them.
  const tests = (state) => {
    const found = new Map();
    for (const name of new Set([...state.keys()].filter((key) => key.startsWith("f.")).map((key) => key.slice(2)))) {
      const values = state.getAll(`f.${name}`);
      if (name === "family_of" && list.families.length) {
        const families = new Set(values.map((line) => list.families[list.lines.indexOf(Number(line))]));
        found.set(name, (at) => families.has(list.families[at]));
      } else if (fields.has(name)) {
        const field = fields.get(name);
        const numbers = new Set(values.map((value) => field.values.indexOf(value === "" ? null : value)));
        found.set(name, (at) => numbers.has(field.codes[at]));
      } else {
        const among = values.map((value) => sets.get(`${name} ${value}`)).filter(Boolean);
        found.set(name, (at) => among.some((one) => one.places.has(at)));
      }
    }
    const looked = (state.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
    if (looked.length) found.set("q", (at) => looked.every((word) => searchable(at).includes(word)));
    return found;
  };
  const passing = (found, but) => {
    const all = [...found].filter(([name]) => name !== but).map(([, test]) => test);
    const places = [];
    for (let at = 0; at < total; at += 1) if (all.every((test) => test(at))) places.push(at);
    return places;
  };

  // Numbers by their size, before words: by their digits, 0.15 would come after 0.2.
  const natural = new Intl.Collator("en", { numeric: true });
  const sizeOf = (text) => (/^[-+]?\.?\d/.test(text) ? Number(text) : NaN);
  const compare = (one, other) => {
    const [a, b] = [sizeOf(one), sizeOf(other)];
    return Number.isNaN(a) - Number.isNaN(b) || (Number.isNaN(a) ? natural.compare(one, other) : a - b);
  };
  const sorted = (places, sort) => {
    const name = sort.replace(/^-/, "");
    const column = fields.get(name);
    let ranks;
    if (name === "id") ranks = list.ids.map((_, at) => at).sort((a, b) => compare(list.ids[a], list.ids[b]));
    else if (column) ranks = column.values.map((_, number) => number).sort((a, b) => (column.values[a] === null) - (column.values[b] === null) || compare(column.values[a] || "", column.values[b] || ""));
    else return places;
    const rank = new Int32Array(ranks.length);
    ranks.forEach((one, place) => { rank[one] = place; });
    const key = column ? (at) => rank[column.codes[at]] : (at) => rank[at];
    const turn = sort.startsWith("-") ? -1 : 1;
    return places.slice().sort((a, b) => turn * (key(a) - key(b)) || a - b);
  };

  const main = document.querySelector(".entries-main");
  const changed = (change) => {
    const state = asked();
    state.delete("offset");
    change(state);
    return `#${state}`;
  };
  const toggled = (name, value, on) => changed((state) => {
    const left = state.getAll(`f.${name}`).filter((one) => one !== value);
    state.delete(`f.${name}`);
    for (const one of on ? left : [...left, value]) state.append(`f.${name}`, one);
  });

  const chips = (state) => {
    const found = [];
    for (const [key, value] of state) {
      if (!key.startsWith("f.")) continue;
      const name = key.slice(2);
      const field = fields.get(name);
      const named = sets.get(`${name} ${value}`);
      const shown = name === "family_of" ? list.ids[list.lines.indexOf(Number(value))] : named ? named.words : field && field.words ? field.words[value] : value;
      const title = field ? field.title : { alone: "only here", error_kind: "error", guardrail_category: "category", family_of: "variants of" }[name] || name;
      found.push(made("li", "", linked(toggled(name, value, true), "chip on", made("span", "muted", bdi(title)), " ", shown ? bdi(shown) : missing(), unseen(" remove this filter"), " ✕")));
    }
    if (!found.length && !state.get("q")) return null;
    found.push(made("li", "", linked("#", "chip", "Clear all")));
    const box = made("ul", "chips", ...found);
    box.setAttribute("aria-label", "Active filters");
    return box;
  };

  const facets = (state, found) => {
    const box = document.querySelector(".facet-box");
    const open = new Map([...box.querySelectorAll(".facet")].map((one) => [one.dataset.field, one.open]));
    const every = passing(found, "");
    const lists = list.fields.filter((field) => !field.hidden).flatMap((field, nth) => {
      const places = found.has(field.name) ? passing(found, field.name) : every;
      const counts = new Uint32Array(field.values.length);
      for (const at of places) counts[field.codes[at]] += 1;
      const order = [...counts.keys()].filter((number) => counts[number]).sort((a, b) => counts[b] - counts[a]);
      if ((order.length < 2 && !found.has(field.name)) || field.values.length > 200) return [];
      const chosen = state.getAll(`f.${field.name}`);
      const items = order.slice(0, 40).map((number) => {
        const value = field.values[number];
        const on = chosen.includes(value === null ? "" : value);
        const shown = field.name === "outcome" ? list.words[value] : words(field, number);
        const link = linked(toggled(field.name, value === null ? "" : value, on), on ? "on" : "", on ? "✓ " : "", value === null ? missing() : bdi(shown));
        if (on) link.setAttribute("aria-current", "true");
        return made("li", "", link, made("span", "muted", count(counts[number])));
      });
      if (order.length > 40) items.push(made("li", "muted", `${count(order.length - 40)} more values`));
      const facet = made("details", "facet", made("summary", "", bdi(field.title)), made("ul", "", ...items));
      facet.dataset.field = field.name;
      facet.open = open.get(field.name) ?? (nth < 3 || found.has(field.name));
      return [facet];
    });
    box.replaceChildren(box.querySelector("summary"), ...lists);
    return every;
  };

  const cell = (column, at) => {
    if (column.kind === "id") {
      const head = made("th", "", linked(address(at), "row-link", bdi(list.ids[at])));
      head.scope = "row";
      return head;
    }
    if (column.kind === "text") {
      const text = column.texts[at];
      return made("td", "text", bdi(text.length > 220 ? `${text.slice(0, 219)}…` : text));
    }
    const value = fields.get(column.field).values[fields.get(column.field).codes[at]];
    if (column.kind === "outcome") return made("td", "", badge(value, list.words));
    return made("td", "field", bdi(value === null ? "" : value));
  };

  const head = (column, sort) => {
    const title = made("th", "", bdi(column.title));
    title.scope = "col";
    const name = column.kind === "id" ? "id" : column.field;
    if (!name) return title;
    const direction = sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none";
    title.setAttribute("aria-sort", direction);
    const link = linked(changed((state) => state.set("sort", sort === name ? `-${name}` : name)), "", bdi(column.title), { ascending: " ▲", descending: " ▼", none: "" }[direction]);
    title.replaceChildren(link);
    return title;
  };

  const show = () => {
    const state = asked();
    const found = tests(state);
    const places = sorted(facets(state, found), state.get("sort") || "");
    const offset = Math.min(Number(state.get("offset")) || 0, Math.max(places.length - 1, 0));
    const shown = places.slice(offset, offset + PER_PAGE);
    const parts = [];
    const chosen = chips(state);
    if (chosen) parts.push(chosen);
    const status = made("p", "count", made("strong", "", count(places.length)), ` ${list.what[places.length === 1 ? 0 : 1]}`);
    const outcomes = fields.get("outcome");
    if (outcomes) {
      const counts = outcomes.values.map((value, number) => [value, places.reduce((sum, at) => sum + (outcomes.codes[at] === number), 0)]);
      status.append(made("span", "muted", ...counts.filter(([, number]) => number).map(([value, number]) => ` · ${count(number)} ${list.words[value]}`)));
    }
    status.setAttribute("role", "status");
    parts.push(status);
    if (shown.length) {
      const table = made("table", "grid entries", made("caption", "", unseen(`${list.what[1]} ${offset + 1} to ${offset + shown.length}`)));
      table.dataset.rows = "";
      table.append(made("thead", "", made("tr", "", ...list.columns.map((column) => head(column, state.get("sort") || "")))));
      table.append(made("tbody", "", ...shown.map((at) => made("tr", "", ...list.columns.map((column) => cell(column, at))))));
      const scroll = made("div", "scroll", table);
      Object.assign(scroll, { tabIndex: 0, role: "group", ariaLabel: "Table of entries" });
      const pager = made("nav", "pager");
      pager.setAttribute("aria-label", "Pages");
      const page = (words, rel, to) => {
        const link = linked(`#${(() => { const one = asked(); one.set("offset", to); return one; })()}`, "button", words);
        link.rel = rel;
        pager.append(link);
      };
      if (offset) page("← Previous", "prev", Math.max(offset - PER_PAGE, 0));
      pager.append(made("span", "muted", `${count(offset + 1)}–${count(offset + shown.length)} of ${count(places.length)}`));
      if (offset + PER_PAGE < places.length) page("Next →", "next", offset + PER_PAGE);
      parts.push(scroll, pager);
    } else {
      parts.push(made("p", "nothing", "Nothing matches these filters."));
    }
    if (list.searched) parts.push(made("p", "note", `The search looks at ids, fields, and the first ${count(list.searched)} characters of each prompt and response.`));
    const form = main.querySelector("form.where");
    main.replaceChildren(form, document.getElementById("list"), ...parts);
    const box = form.querySelector("#words");
    if (document.activeElement !== box) box.value = state.get("q") || "";
  };

  const form = main.querySelector("form.where");
  form.addEventListener("submit", (event) => event.preventDefault());
  let waiting;
  form.querySelector("#words").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const address_ = changed((state) => { if (event.target.value.trim()) state.set("q", event.target.value); else state.delete("q"); });
      history.replaceState(null, "", address_);
      show();
    }, 120);
  });
  addEventListener("hashchange", show);
  show();
}

// -- entries ----------------------------------------------------------------------------------------------------

function entryPages(page) {
  const box = document.querySelector("[data-entry]");
  const said = ([role, before, passage, after, left, calls]) => {
    const kind = ["response", "assistant"].includes(role) ? "answer" : role === "error" ? "error" : "prompt";
    const parts = [made("p", "who", bdi(role))];
    if (before || passage || after) {
      const text = made("pre", "", before, passage ? made("mark", "", passage) : "", after);
      Object.assign(text, { tabIndex: 0, role: "group", ariaLabel: role, dir: "auto" });
      parts.push(text);
    }
    if (left) parts.push(made("p", "note", `${count(left)} more characters are not in this export.`));
    for (const [name, given] of calls) parts.push(made("div", "call", made("span", "muted", "tool call "), made("code", "", bdi(name)), made("pre", "", given)));
    return made("div", `said role-${kind}`, ...parts);
  };
  const verdict = ([judge, decision, score, reason, before]) => made(
    "div", "verdict",
    made("span", `outcome ${["success", "hit", "failed"].includes(decision) ? "success" : "failure"}`, decision), " ", made("strong", "", bdi(judge)),
    score && made("span", "muted", ` score ${score}`), before && made("span", "muted", ` before: ${before}`), reason && made("p", "reason", reason),
  );
  const attempt = (one) => {
    const title = made("h2", "", `Attempt ${one.number} `, made("span", "muted", bdi(one.strategy)), " ", badge(one.state, page.words), one.decides ? made("span", "deciding", "decides") : "");
    const parts = [title];
    if (one.unread) parts.push(made("p", "trouble", `Its texts cannot be shown: ${one.unread}.`));
    parts.push(...one.texts.map(said));
    if (one.requests.length === 1) parts.push(...one.requests[0].verdicts.map(verdict));
    parts.push(...one.verdicts.map(verdict));
    if (one.requests.length > 1) {
      const requests = one.requests.map((request) => made(
        "li", "",
        made("p", "who", `Request ${request.number} `, badge(request.state, page.words), request.strategy && made("span", "muted", bdi(request.strategy)), request.seconds && made("span", "muted", request.seconds)),
        ...request.texts.map(said), ...request.verdicts.map(verdict),
      ));
      const history_ = made("details", "history", made("summary", "", `${requests.length} requests`), made("ol", "requests", ...requests));
      history_.open = requests.length <= 12;
      parts.push(history_);
    }
    return made("section", "attempt", ...parts);
  };
  const section = (title, ...children) => made("section", "", made("h2", "", title), ...children);

  const show = () => {
    const state = asked();
    const line = Number(state.get("line"));
    const at = Math.max(page.entries.findIndex((entry) => entry.line === line), 0);
    const entry = page.entries[at];
    const rest = asked();
    rest.delete("line");
    const to = (file, number) => { const one = new URLSearchParams(rest); if (number) one.set("line", number); return `${file}#${one}`; };
    const up = document.querySelector("[data-up]");
    up.href = to(page.list, 0);
    document.querySelector("[data-entry-name]").replaceChildren(bdi(entry.id));
    document.title = `Entry ${entry.id} – Faircount`;

    const near = page.entries.slice(Math.max(at - 12, 0), at + 13).map((one) => {
      const link = linked(to("", one.line), "", made("span", `dot fill-${one.outcome}`), bdi(one.id), unseen(` ${one.outcome}`));
      if (one === entry) link.setAttribute("aria-current", "true");
      return made("li", "", link);
    });
    const list = made("aside", "pane list", made("p", "note", `${count(page.first + at + 1)} of ${count(page.total)} in the file`), made("ol", "", ...near));
    list.setAttribute("aria-label", "Entries in the file");

    const pager = made("nav", "pager");
    pager.setAttribute("aria-label", "Neighbours");
    const beside = (rel, words, key, place, file) => {
      if (!place && !file) return;
      const link = linked(place ? to("", place.line) : to(file, rel === "prev" ? -1 : 0), "button", words, unseen(rel === "prev" ? " Previous entry" : " Next entry"));
      link.rel = rel;
      link.title = key;
      pager.append(link);
    };
    beside("prev", "←", "Previous (k)", page.entries[at - 1], page.before);
    beside("next", "→", "Next (j)", page.entries[at + 1], page.after);
    const title = made("h1", "", "Entry ", bdi(entry.id), " ", badge(entry.outcome, page.words));
    title.id = "entry-title";
    const article = made("article", "pane text", made("div", "title-row", title, pager), made("p", "why", `${entry.why}.`), ...entry.attempts.map(attempt));

    const chosen = (name, value) => to(page.list, 0).replace(/#.*/, `#${new URLSearchParams([[`f.${name}`, value]])}`);
    const facts = made("dl", "fields", ...entry.fields.map(([name, words, value]) => made("div", "", made("dt", "", bdi(words)), made("dd", "", linked(chosen(name, value), "", bdi(value.length > 300 ? `${value.slice(0, 299)}…` : value))))));
    const evidence = made("aside", "pane evidence", section("Fields", facts));
    evidence.setAttribute("aria-label", "Evidence");
    if (entry.others.length) {
      evidence.append(section("In other runs", made("ul", "others", ...entry.others.map(([run, id, number, outcome]) => made("li", "", linked(`../runs/${id}-entries.html#open=${number}`, "", bdi(page.runs[run])), badge(outcome, page.words))))));
    }
    if (entry.family > 1) evidence.append(section("Its family", made("p", "note", linked(chosen("family_of", entry.line), "", `${count(entry.family)} variants`), " of one payload")));
    evidence.append(section("Source", made("ul", "plain-list", ...entry.attempts.map((one) => made("li", "place", `line ${count(one.line)}${one.seconds ? `, ${one.seconds}` : ""}${one.categories.length ? `, ${one.categories.join(", ")}` : ""}`)))));
    box.replaceChildren(list, article, evidence);
    scrollTo(0, 0);
  };
  if (asked().get("line") === "-1") {
    const state = asked();
    state.set("line", page.entries[page.entries.length - 1].line);
    history.replaceState(null, "", `#${state}`);
  }
  addEventListener("hashchange", show);
  show();
}
