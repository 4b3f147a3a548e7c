// Hits as the server finds them: lines of JSON, each put on the page as text.
function element(name, words, kind) {
  const made = document.createElement(name);
  made.textContent = words;
  if (kind) made.className = kind;
  return made;
}

export async function search() {
  const list = document.querySelector("[data-search]");
  if (!list) return;
  const state = document.querySelector("#search-state");
  const labels = new Map([...document.querySelectorAll("#labels [data-id]")].map((one) => [one.dataset.id, one.textContent]));
  const started = performance.now();
  let hits = 0;
  const cut = [];

  const show = (found) => {
    if (found.kind === "progress") {
      if (found.problem) list.append(element("li", `${labels.get(found.run)}: ${found.problem}`, "trouble"));
      if (found.done && found.more) cut.push(found.run);
      return;
    }
    hits += 1;
    const item = document.createElement("li");
    const head = element("p", "", "hit-head");
    const link = element("a", found.id || found.line, "row-link");
    link.href = `/run/${encodeURIComponent(found.run)}/line/${Number(found.line)}`;
    head.append(link, element("span", ` ${labels.get(found.run)} · ${found.what}`, "muted"));
    const text = element("p", "", "hit-text");
    text.append(found.before, element("mark", found.words), found.after);
    item.append(head, text);
    list.append(item);
  };

  state.textContent = "Searching…";
  const reader = (await fetch(list.dataset.search)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    lines.filter(Boolean).forEach((line) => show(JSON.parse(line)));
    state.textContent = `Searching… ${hits} found`;
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  state.textContent = `${hits || "Nothing"} found in ${seconds} s${cut.length ? "; the first of each run are shown" : ""}`;
  for (const run of cut) {
    const words = new URLSearchParams(list.dataset.search.split("?")[1]).get("q");
    const item = document.createElement("li");
    const link = element("a", `Search ${labels.get(run)} alone for more`, "");
    link.href = `/search?${new URLSearchParams({ q: words, run })}`;
    item.append(link);
    if (cut.length && !new URLSearchParams(list.dataset.search.split("?")[1]).get("run")) list.append(item);
  }
}
