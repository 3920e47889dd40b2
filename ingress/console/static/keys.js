// Keys: `/` goes to the search box, `g` and a letter go to a page, `?` shows all keys. No key acts while a person types in
// a field. Only pages that stand in the navigation have a key.
const PAGES = {
  o: "/overview", r: "/routes", l: "/map", m: "/matching/vehicles", a: "/mappings/vehicles", f: "/vehicles",
  d: "/drivers", t: "/connectors", s: "/stations", e: "/prices", b: "/fills", v: "/savings", g: "/bought", i: "/ifta",
  p: "/policy", k: "/keys", w: "/webhooks", n: "/notices", u: "/users", h: "/audit", q: "/requests", j: "/queues",
  c: "/companies", x: "/compliance",
};
const findBox = document.getElementById("find");
const linkTo = (path) => document.querySelector(`nav a[href="${path}"]`);

const isTyping = (event) =>
  event.isComposing || event.target.isContentEditable || event.target.closest?.("input, textarea, select");

const rowOf = (keys, text) => {
  const term = document.createElement("dt"), about = document.createElement("dd");
  for (const key of keys) {
    const shown = document.createElement("kbd");
    shown.textContent = key;
    term.append(shown, " ");
  }
  about.textContent = text;
  return [term, about];
};
const dialog = document.createElement("dialog");
const showKeys = () => {
  if (!dialog.isConnected) {
    const title = document.createElement("h2"), list = document.createElement("dl"), close = document.createElement("button");
    title.textContent = "Keyboard shortcuts";
    title.id = "keys-title";
    dialog.className = "keys";
    dialog.setAttribute("aria-labelledby", title.id);
    list.className = "fields";
    list.append(...rowOf(["/"], "Find a load, unit, driver, truck stop or request"), ...rowOf(["?"], "Show the keyboard shortcuts"),
      ...rowOf(["Esc"], "Close what is open"), ...Object.entries(PAGES).filter(([, path]) => linkTo(path)).flatMap(
        ([letter, path]) => rowOf(["g", letter], linkTo(path).firstChild.textContent.trim())));
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    dialog.append(title, list, close);
    document.body.append(dialog);
  }
  dialog.showModal(); // Escape closes it by itself
};

let isGoing = false; // `g` was the last key
for (const kind of ["pointerdown", "focusin"]) document.addEventListener(kind, () => { isGoing = false; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target === findBox) return findBox.blur();
  if (["Shift", "CapsLock"].includes(event.key)) return;
  const wasGoing = isGoing;
  isGoing = false;
  if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  if (wasGoing) {
    const link = linkTo(PAGES[event.key.toLowerCase()]);
    if (!link) return;
    event.preventDefault();
    return link.click();
  }
  if (event.key === "g") isGoing = true;
  else if (event.key === "?") { event.preventDefault(); showKeys(); }
  else if (event.key === "/" && findBox) { event.preventDefault(); findBox.focus(); findBox.select(); }
});

const opener = document.querySelector("[data-shows-keys]");
if (opener) {
  opener.hidden = false;
  opener.addEventListener("click", showKeys);
}
