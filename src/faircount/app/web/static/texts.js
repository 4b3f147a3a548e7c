// Long texts, a piece at a time, and copies to the clipboard.
export function texts() {
  for (const button of document.querySelectorAll("[data-more]")) {
    let next = button.dataset.more;
    button.addEventListener("click", async () => {
      button.disabled = true;
      const response = await fetch(next);
      if (!response.ok) {
        button.textContent = "The text could not be read again";
        return;
      }
      const piece = await response.json();
      const said = button.closest(".said");
      said.querySelector("pre").append(document.createTextNode(piece.text));
      if (piece.next === null) {
        button.parentElement.remove();
        return;
      }
      const address = new URL(next, location.href);
      address.searchParams.set("from", piece.next);
      next = address.pathname + address.search;
      button.nextElementSibling.textContent = "";
      button.disabled = false;
    });
  }

  const copied = document.querySelector("#copied");
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      copied.textContent = "Copied.";
    } catch {
      copied.textContent = "The browser did not allow copying.";
    }
  };
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy(button.dataset.copy));
  }
  for (const link of document.querySelectorAll("[data-copy-from]")) {
    link.addEventListener("click", async (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      copy(await (await fetch(link.href)).text());
    });
  }
}
