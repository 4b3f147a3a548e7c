// The threshold of a judge: figures follow while it is moved. The server works them out.
import { parsed } from "./live.js";

const PAUSE = 120;

export function judges() {
  const form = document.querySelector("form[data-threshold]");
  if (!form) return;
  const slider = form.querySelector('input[type="range"]');
  const output = form.querySelector("output");
  let waiting = 0;
  let asked = 0;

  const show = async () => {
    const number = ++asked;
    const address = `${location.pathname}?${new URLSearchParams(new FormData(form))}`;
    const page = await parsed(address);
    if (number !== asked) return;
    document.querySelector("#judge-figures").replaceWith(document.adoptNode(page.querySelector("#judge-figures")));
    history.replaceState(null, "", address);
  };
  slider.addEventListener("input", () => {
    output.textContent = Number(slider.value).toPrecision(3);
    clearTimeout(waiting);
    waiting = setTimeout(() => show().catch(() => {}), PAUSE);
  });
}
