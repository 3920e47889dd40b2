// Copy buttons: <button data-copy="ID"> copies the text of the element with that id.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    // without TLS browsers give no clipboard: the text is marked, to be copied by hand
    getSelection().selectAllChildren(source);
    button.textContent = "Press Ctrl+C";
  }
});

// Only one menu of a row is open at a time, and Escape closes it.
document.addEventListener("toggle", (event) => {
  const opened = event.target;
  if (!opened.open || !opened.closest(".actions, .more")) return;
  for (const other of opened.parentElement.querySelectorAll("details[open]")) if (other !== opened) other.open = false;
  opened.querySelector("input:not([type=hidden]), select")?.focus();
}, true);
document.addEventListener("keydown", (event) => {
  const opened = event.key === "Escape" && event.target.closest("details[open]");
  if (!opened) return;
  opened.open = false;
  opened.querySelector("summary").focus();
});
