// Labels by keys, once each; and the rates, renewed while others label as well.
import { parsed } from "./live.js";

const EVERY = 3000;

export function label() {
  const forms = [...document.querySelectorAll("form[data-answers], form[data-undo]")];
  let sent = false;
  for (const form of forms) {
    form.addEventListener("submit", (event) => {
      if (sent) event.preventDefault();
      sent = true;
    });
  }
  // A page that the back button brings back can be sent again.
  addEventListener("pageshow", () => { sent = false; });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    if (event.key === "n") {
      const note = document.querySelector("[data-note]");
      if (!note) return;
      note.focus();
      event.preventDefault();
      return;
    }
    // Where several wait for a decision, keys could mean any of them.
    const buttons = document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`);
    if (buttons.length === 1) buttons[0].click();
  });
  renew();
}

async function renew() {
  if (!document.querySelector("[data-rates]")) return;
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, EVERY); });
    const shown = document.querySelector("[data-rates]");
    if (document.hidden || shown.contains(document.activeElement)) continue;
    try {
      const renewed = (await parsed(shown.dataset.rates)).querySelector("[data-rates]");
      if (renewed && renewed.textContent !== shown.textContent) shown.replaceWith(document.adoptNode(renewed));
    } catch {
      // The server has ended: what is shown stays.
    }
  }
}
