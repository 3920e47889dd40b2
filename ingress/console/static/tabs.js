// Parts of a long page as tabs on a phone: the links of <nav data-tabs> lead to the parts, <section id="part-...">.
// On a wider screen, on paper and without scripts, all parts are shown and the links lead down the page.
const PHONE = matchMedia("screen and (max-width: 800px)");

for (const list of document.querySelectorAll("nav[data-tabs]")) {
  const tabs = [...list.querySelectorAll("a")];
  const part = (tab) => document.querySelector(tab.hash);
  const known = () => list.getAttribute("role") === "tablist";

  const select = (chosen) => {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", tab === chosen);
      tab.tabIndex = tab === chosen ? 0 : -1;
      part(tab).hidden = tab !== chosen;
    }
  };
  const go = (tab) => {
    history.replaceState(history.state, "", tab.hash); // so that it is shown again after a reload
    select(tab);
  };
  const named = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    return target && tabs.find((tab) => part(tab).contains(target));
  };
  const follow = () => {
    if (!PHONE.matches) {
      list.removeAttribute("role");
      for (const tab of tabs) {
        for (const name of ["role", "aria-selected", "aria-controls", "tabindex"]) tab.removeAttribute(name);
        for (const name of ["role", "aria-labelledby", "tabindex", "hidden"]) part(tab).removeAttribute(name);
      }
      return;
    }
    list.setAttribute("role", "tablist");
    for (const tab of tabs) {
      tab.id ||= `tab-${tab.hash.slice(1)}`;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", tab.hash.slice(1));
      part(tab).setAttribute("role", "tabpanel");
      part(tab).setAttribute("aria-labelledby", tab.id);
      part(tab).tabIndex = 0;
    }
    select(named() || tabs[0]);
  };

  list.addEventListener("click", (event) => {
    const tab = event.target.closest("a");
    if (!tab || !known()) return;
    event.preventDefault();
    go(tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target);
    if (!known() || at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const last = tabs.length - 1;
    const to = { ArrowLeft: at ? at - 1 : last, ArrowRight: at < last ? at + 1 : 0, Home: 0, End: last, " ": at }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(tabs[to]);
    tabs[to].focus();
  });
  addEventListener("hashchange", () => {
    const tab = known() && named();
    if (tab) select(tab);
  });
  PHONE.addEventListener("change", follow);
  follow();
}
