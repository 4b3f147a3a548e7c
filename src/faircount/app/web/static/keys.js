// The keyboard: j and k go through rows or entries, / goes to the field, ? lists the keys, Esc leaves.
export function keys() {
  const help = document.querySelector("#help");
  document.querySelector("[data-help]").addEventListener("click", () => help.showModal());
  const rows = () => [...document.querySelectorAll("[data-rows] tbody tr, ol[data-rows] > li")].filter((row) => !row.hidden && row.querySelector(".row-link"));

  const move = (step) => {
    const beside = document.querySelector(step > 0 ? '.text a[rel="next"]' : '.text a[rel="prev"]');
    if (document.querySelector(".panes")) {
      if (beside) location.href = beside.href;
      return;
    }
    const all = rows();
    if (!all.length) return;
    const now = all.findIndex((row) => row.classList.contains("at"));
    const next = now < 0 ? (step > 0 ? 0 : all.length - 1) : now + step;
    if (next < 0 || next >= all.length) {
      const page = document.querySelector(step > 0 ? '.pager a[rel="next"]' : '.pager a[rel="prev"]');
      if (page) location.href = page.href;
      return;
    }
    all.forEach((row) => row.classList.remove("at"));
    all[next].classList.add("at");
    all[next].querySelector(".row-link").focus({ preventScroll: true });
    all[next].scrollIntoView({ block: "nearest" });
  };

  const up = () => {
    const link = document.querySelector("[data-up]") || [...document.querySelectorAll(".path a")].pop();
    if (link) location.href = link.href;
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const field = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (event.key === "Escape") {
      if (field) field.blur();
      else if (document.querySelector("details.choose[open]")) document.querySelector("details.choose[open]").open = false;
      else if (!event.defaultPrevented) up();
      return;
    }
    if (field) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "?") help.showModal();
    else if (event.key === "b") (document.querySelector("tr.at [data-base]") || document.querySelector(".actions [data-base]"))?.click();
    else if (event.key === "x") document.querySelector("[data-xray]")?.click();
    else if (event.key === "/") {
      const box = document.querySelector("[data-slash]") || document.querySelector("#find");
      box.focus();
      box.select();
      event.preventDefault();
    }
  });
}
