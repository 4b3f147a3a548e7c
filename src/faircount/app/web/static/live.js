// Runs in progress: their lines are asked for again when their journals have grown.
const EVERY = 1500;

// A document that a request hands over is parsed, and nothing in it runs or loads.
export function parsed(address) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.responseType = "document";
    request.open("GET", address);
    request.onload = () => (request.response ? resolve(request.response) : reject(new Error("no document")));
    request.onerror = () => reject(new Error("no answer"));
    request.send();
  });
}

async function renew(runs) {
  if (!runs.length) return;
  const base = document.querySelector('#compare input[name="base"]');
  const asked = [...runs.map((run) => ["run", run]), ...(base ? [["base", base.value]] : [])];
  const page = await parsed(`/rows?${new URLSearchParams(asked)}`);
  for (const row of [...page.querySelectorAll("tr[data-run]")]) {
    const shown = document.getElementById(row.id);
    if (!shown) continue;
    const renewed = document.adoptNode(row);
    renewed.querySelector('input[type="checkbox"]').checked = shown.querySelector('input[type="checkbox"]').checked;
    if (shown.classList.contains("at")) renewed.classList.add("at");
    shown.replaceWith(renewed);
  }
  document.dispatchEvent(new Event("faircount:rows"));
}

export async function live() {
  const table = document.querySelector('[data-live="yes"]');
  const one = document.querySelector("[data-live-run]")?.dataset.liveRun;
  if (!table && !one) return;
  for (const row of document.querySelectorAll('tr[data-ready="no"]')) await renew([row.dataset.run]).catch(() => {});
  let known = {};
  for (;;) {
    if (!document.hidden) {
      try {
        const states = await (await fetch("/live")).json();
        // At the first time, all of them: a file may have grown between the page and this.
        const changed = Object.keys(states).filter((run) => String(states[run]) !== String(known[run]));
        if (one && changed.includes(one)) {
          const main = document.adoptNode((await parsed(location.href)).querySelector("main"));
          document.querySelector(".summary").replaceWith(main.querySelector(".summary"));
        } else if (table) {
          await renew(changed);
        }
        known = states;
        if (!Object.values(states).some(([state]) => state === "running")) return;
      } catch {
        // The server has ended, or is about to: the page stays as it is.
      }
    }
    await new Promise((resolve) => { setTimeout(resolve, EVERY); });
  }
}
