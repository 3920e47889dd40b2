// A file that is dropped on any page leads to the page that imports files, and is looked at there.
const IMPORT_PAGE = "/import";

const lookAt = (files) => {
  const form = document.getElementById("any-file");
  form.elements.file.files = files;
  document.getElementById("look").replaceChildren();
  form.requestSubmit(form.querySelector("button[value=look]"));
};

const goToImport = async () => {
  if (document.getElementById("any-file")) return true;
  const answer = await fetch(IMPORT_PAGE);
  const main = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
  if (!answer.ok || !main?.querySelector("#any-file")) return false;
  document.getElementById("main").replaceWith(main);
  history.pushState({}, "", IMPORT_PAGE);
  addEventListener("popstate", () => location.reload());
  return true;
};

const bringsFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

document.addEventListener("dragover", (event) => {
  if (!bringsFile(event)) return;
  event.preventDefault();
  document.body.dataset.dropping = "";
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) delete document.body.dataset.dropping;
});
document.addEventListener("drop", async (event) => {
  if (!bringsFile(event)) return;
  event.preventDefault();
  delete document.body.dataset.dropping;
  const files = event.dataTransfer.files;
  if (files.length && (await goToImport())) lookAt(files);
});

// Another choice in what was shown: the file is looked at again.
document.addEventListener("change", (event) => {
  if ("looksAgain" in event.target.dataset) event.target.form.requestSubmit(event.target.form.querySelector("button[value=look]"));
});
