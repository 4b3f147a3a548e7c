// Costs and prevalence as sliders: the cheapest threshold follows at once, from the points in the page; then the page is asked for.
import { parsed } from "./live.js";

const PAUSE = 250;
const PROMPTS = 1000;
const SIDE = 280;
const [RECALL, RECALL_LOW, RECALL_HIGH, ALARMS, ALARMS_LOW, ALARMS_HIGH] = [1, 2, 3, 4, 5, 6];

function share(text, otherwise) {
  const number = text.trim().endsWith("%") ? parseFloat(text) / 100 : parseFloat(text);
  return Number.isFinite(number) && number >= 0 ? number : otherwise;
}

function percent(value) {
  return `${(100 * value).toFixed(1)}%`;
}

function money(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

export function operating() {
  const form = document.querySelector("form[data-operating]");
  const sliders = form ? [...form.querySelectorAll("input[data-of]")] : [];
  if (!sliders.length) return;
  const guardrails = JSON.parse(form.dataset.points);
  let waiting = 0;
  let asked = 0;

  const field = (name) => form.elements.namedItem(name);

  function cost(step, prevalence, recall, alarms) {
    const [alarm, miss] = [share(field("cost_false_alarm").value, 1), share(field("cost_miss").value, 1)];
    return PROMPTS * (prevalence * miss * (1 - step[recall]) + (1 - prevalence) * alarm * step[alarms]);
  }

  function precision(step, prevalence, recall, alarms) {
    const blocked = prevalence * step[recall] + (1 - prevalence) * step[alarms];
    return blocked > 0 ? (prevalence * step[recall]) / blocked : null;
  }

  function fill(row, guardrail, at, prevalence) {
    const step = guardrail.steps[at];
    const cell = (name) => row.querySelector(`[data-is="${name}"]`);
    const [value, low, high] = [
      cost(step, prevalence, RECALL, ALARMS),
      cost(step, prevalence, RECALL_HIGH, ALARMS_LOW),
      cost(step, prevalence, RECALL_LOW, ALARMS_HIGH),
    ];
    cell("cost").textContent = `${money(value)} [${money(low)}, ${money(high)}]`;
    const sure = precision(step, prevalence, RECALL, ALARMS);
    const [least, most] = [precision(step, prevalence, RECALL_LOW, ALARMS_HIGH), precision(step, prevalence, RECALL_HIGH, ALARMS_LOW)];
    cell("precision").textContent =
      sure === null ? "undefined" : `${percent(sure)} [${(100 * (least ?? 0)).toFixed(1)}, ${(100 * (most ?? 1)).toFixed(1)}]`;
    if (!("cheapest" in row.dataset)) return;
    cell("threshold").textContent = step[0] === null ? "none" : String(step[0]);
    cell("recall").textContent = guardrail.recalls[at];
    cell("alarms").textContent = guardrail.alarms[at];
  }

  function mark(step) {
    const plot = form.querySelector("[data-figures] svg > g");
    if (!plot) return;
    const ring = document.createElementNS(plot.namespaceURI, "circle");
    ring.setAttribute("class", "cheapest");
    ring.setAttribute("cx", String(SIDE * step[ALARMS]));
    ring.setAttribute("cy", String(SIDE * (1 - step[RECALL])));
    ring.setAttribute("r", "8");
    plot.append(ring);
  }

  function show() {
    for (const ring of form.querySelectorAll("circle.cheapest")) ring.remove();
    guardrails.forEach((guardrail, number) => {
      const prevalence = Math.min(share(field("prevalence").value, guardrail.prevalence), 1);
      const costs = guardrail.steps.map((step) => cost(step, prevalence, RECALL, ALARMS));
      const cheapest = costs.indexOf(Math.min(...costs));
      mark(guardrail.steps[cheapest]);
      for (const row of form.querySelectorAll(`tr[data-guardrail="${number}"]`)) {
        const named = Number(row.querySelector('[data-is="threshold"]').textContent);
        const at = "cheapest" in row.dataset ? cheapest : guardrail.steps.findIndex((step) => step[0] === named);
        if (at >= 0) fill(row, guardrail, at, prevalence);
      }
    });
  }

  // The server draws the figures anew, and its address can be kept.
  async function ask() {
    const number = ++asked;
    const address = `${location.pathname}?${new URLSearchParams(new FormData(form))}`;
    const page = await parsed(address);
    const figures = page.querySelector("[data-figures]");
    if (number !== asked || !figures) return;
    form.querySelector("[data-figures]").replaceWith(document.adoptNode(figures));
    history.replaceState(null, "", address);
    show();
  }

  const later = () => {
    show();
    clearTimeout(waiting);
    waiting = setTimeout(() => ask().catch(() => {}), PAUSE);
  };

  function follow(slider) {
    const name = slider.dataset.of;
    const value = share(field(name).value, name === "prevalence" ? guardrails[0].prevalence : 1);
    slider.value = String(Math.log10(Math.max(value, 1e-4)));
    describe(slider, value);
  }

  function describe(slider, value) {
    slider.setAttribute("aria-valuetext", slider.dataset.of === "prevalence" ? `${Number((100 * value).toPrecision(2))}%` : String(value));
  }

  for (const slider of sliders) {
    const name = slider.dataset.of;
    slider.hidden = false;
    follow(slider);
    slider.addEventListener("input", () => {
      const value = Number((10 ** Number(slider.value)).toPrecision(2));
      field(name).value = name === "prevalence" ? `${Number((100 * value).toPrecision(2))}%` : String(value);
      describe(slider, value);
      later();
    });
    field(name).addEventListener("input", () => { follow(slider); later(); });
  }
  show();
}
