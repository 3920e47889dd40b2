// A file that is dropped on any page leads to the page that imports files, and is looked at there.
const IMPORT_PAGE = "/import";

const lookAt = (files) => {
  const form = document.getElementById("any-file");
  form.elements.file.files = files;
  document.getElementById("look").replaceChildren();
  form.requestSubmit(form.querySelector("button[value=look]"));
};

// Who is signed in, and the company that an operator has chosen, stand in the token of a page.
const tokenOf = (page) => page.body.getAttribute("hx-headers:inherited");

const goToImport = async () => {
  if (document.getElementById("any-file")) return true;
  try {
    const answer = await fetch(IMPORT_PAGE);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = page.getElementById("main");
    if (!answer.ok || !main?.querySelector("#any-file")) throw new Error("refused");
    if (tokenOf(page) !== tokenOf(document)) throw new Error("another person or company by now");
    document.getElementById("main").replaceWith(main);
    document.title = page.title;
  } catch {
    location.assign(IMPORT_PAGE); // it says why, or asks to sign in
    return false;
  }
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
  document.querySelector("dialog[open]")?.close();
  if (files.length > 1) return say("Drop one file at a time.");
  if (files.length && (await goToImport())) lookAt(files);
});

// Another choice in what was shown: the file is looked at again.
document.addEventListener("change", (event) => {
  if ("looksAgain" in event.target.dataset) event.target.form.requestSubmit(event.target.form.querySelector("button[value=look]"));
});
