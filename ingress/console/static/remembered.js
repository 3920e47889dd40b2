// What a person folds or unfolds stays so in this browser: <details data-remembered="NAME">. The group of the page that is
// shown (data-current) is always open at first. This script runs before the navigation is painted, so nothing jumps.
const KEPT = "fuelroute.folded";
const readFolded = () => {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {}; // a browser that keeps nothing
  }
};
const showRemembered = () => {
  const folded = readFolded();
  for (const part of document.querySelectorAll("details[data-remembered]")) {
    const isFolded = folded[part.dataset.remembered];
    if (isFolded !== undefined && !("current" in part.dataset)) part.open = !isFolded;
  }
};
document.addEventListener("click", (event) => { // also that of the keys Enter and Space
  const part = event.target.closest("summary")?.parentElement;
  if (!part?.dataset.remembered) return;
  try {
    localStorage.setItem(KEPT, JSON.stringify({ ...readFolded(), [part.dataset.remembered]: part.open }));
  } catch { /* a browser that keeps nothing */ }
});
showRemembered();
document.addEventListener("DOMContentLoaded", showRemembered);
document.addEventListener("htmx:after:swap", showRemembered);
