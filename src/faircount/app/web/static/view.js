// What the pages do beyond links and forms. Result texts enter a page as text nodes only: nothing here makes markup of a text.
import { rows } from "./rows.js";
import { keys } from "./keys.js";
import { complete } from "./complete.js";
import { texts } from "./texts.js";
import { search } from "./search.js";
import { live } from "./live.js";
import { label } from "./label.js";
import { judges } from "./judges.js";
import { operating } from "./operating.js";

const wide = matchMedia("(min-width: 60rem)");
for (const box of document.querySelectorAll("details[data-open-wide]")) box.open = wide.matches;
for (const choice of document.querySelectorAll("select[data-submit]")) {
  choice.addEventListener("change", () => choice.form.requestSubmit());
}
for (const form of document.querySelectorAll("form.where")) {
  // Columns that were chosen before are hidden fields; the boxes say what is chosen now.
  const boxes = form.querySelectorAll("input[data-column]");
  for (const box of boxes) {
    box.addEventListener("change", () => form.querySelectorAll('input[type="hidden"][name="col"]').forEach((one) => one.remove()));
  }
  form.addEventListener("submit", () => {
    const touched = [...boxes].some((box) => box.checked !== box.defaultChecked);
    if (!touched) boxes.forEach((box) => { box.disabled = true; });
    const where = form.querySelector("#where");
    where.disabled = !where.value.trim();
  });
}
addEventListener("pageshow", () => {
  // A form that the back button brings back is as it was sent.
  for (const field of document.querySelectorAll("form.where :disabled")) field.disabled = false;
});

rows();
keys();
complete();
texts();
search();
live();
label();
judges();
operating();
