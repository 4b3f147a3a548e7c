// Completion in the box of queries: a combobox, as the ARIA practices describe it.
export function complete() {
  const box = document.querySelector("[data-complete]");
  if (!box) return;
  const list = document.getElementById(box.getAttribute("aria-controls"));
  let start = 0;
  let chosen = -1;
  let asked = 0;

  const close = () => {
    list.hidden = true;
    list.replaceChildren();
    chosen = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const mark = (number) => {
    const items = [...list.children];
    if (!items.length) return;
    chosen = (number + items.length) % items.length;
    items.forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
    box.setAttribute("aria-activedescendant", items[chosen].id);
    items[chosen].scrollIntoView({ block: "nearest" });
  };
  const take = (text) => {
    const rest = box.value.slice(box.selectionStart);
    box.value = `${box.value.slice(0, start)}${text} ${rest.trimStart()}`;
    const end = start + text.length + 1;
    box.setSelectionRange(end, end);
    close();
    ask();
  };
  const ask = async () => {
    const number = (asked += 1);
    const text = box.value.slice(0, box.selectionStart);
    const response = await fetch(`${box.dataset.complete}?${new URLSearchParams({ text })}`);
    if (!response.ok || number !== asked || document.activeElement !== box) return;
    const found = await response.json();
    start = found.start;
    list.replaceChildren(...found.items.map((word, place) => {
      const item = document.createElement("li");
      item.id = `where-item-${place}`;
      item.role = "option";
      item.textContent = word;
      item.setAttribute("aria-selected", "false");
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(word); });
      return item;
    }));
    list.hidden = !found.items.length;
    box.setAttribute("aria-expanded", String(!list.hidden));
    chosen = -1;
  };

  let waiting;
  box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 60); });
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) ask();
    else if (list.hidden) return;
    else if (event.key === "ArrowDown") mark(chosen + 1);
    else if (event.key === "ArrowUp") mark(chosen - 1);
    else if (event.key === "Escape") { close(); event.stopPropagation(); }
    else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) take(list.children[chosen].textContent);
    else return;
    event.preventDefault();
  });
}
