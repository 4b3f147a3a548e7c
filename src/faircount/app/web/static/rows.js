// The table of runs: filtered as one types, and compared when two or more are chosen.
export function rows() {
  const filter = document.querySelector("[data-filter-runs]");
  if (!filter) return;
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const all = document.querySelectorAll("tr[data-run]");
    for (const row of all) {
      row.hidden = !words.every((word) => row.dataset.words.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    document.querySelector("#no-runs").hidden = shown > 0;
    document.querySelector("#runs-count").textContent = words.length ? `${shown} of ${all.length} runs` : `${all.length} ${all.length === 1 ? "run" : "runs"}`;
    if (location.protocol === "file:") return;
    const address = new URL(location.href);
    if (filter.value) address.searchParams.set("q", filter.value);
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
  };
  filter.addEventListener("input", apply);
  document.addEventListener("faircount:rows", apply);
  if (filter.value) apply();

  const button = document.querySelector("#compare-button");
  if (!button) return;
  const baseline = document.querySelector('#compare input[name="base"]');
  const choose = () => {
    const chosen = document.querySelectorAll('input[name="run"]:checked').length;
    button.disabled = chosen < (baseline ? 1 : 2);
    if (baseline) button.textContent = chosen ? `Compare ${chosen} with the baseline` : "Choose runs to compare";
    else button.textContent = chosen < 2 ? "Choose two runs to compare" : `Compare ${chosen} runs`;
  };
  document.addEventListener("change", choose);
  addEventListener("pageshow", choose);
  choose();
}
