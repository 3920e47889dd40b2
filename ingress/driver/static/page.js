"use strict";
// Keeps answers while there is no connection and sends each once; asks for news; keeps the page for the next visit.
(function () {
  const POLL_SECONDS = 60;
  const CHANGING_SECONDS = 1.5;
  const here = location.pathname + location.search;
  let tag = null;
  let asking = false;

  function show(id, shown) {
    const element = document.getElementById(id);
    if (element) element.hidden = !shown;
  }

  function isBusy() {
    const active = document.activeElement;
    return document.querySelector("#trip details[open]") !== null || (active !== null && active.tagName === "INPUT");
  }

  function replace(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("trip");
    const old = document.getElementById("trip");
    if (fresh && old && fresh.innerHTML !== old.innerHTML) old.replaceWith(fresh);
  }

  async function ask() {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(here, { headers: headers, cache: "no-store", referrerPolicy: "no-referrer" });
      show("offline", false);
      if (answer.status === 404) location.reload();
      if (answer.ok && !isBusy()) {
        tag = answer.headers.get("ETag");
        replace(await answer.text());
      }
    } catch {
      show("offline", true);
    } finally {
      asking = false;
    }
  }

  function again() {
    const trip = document.getElementById("trip");
    const seconds = trip && "changing" in trip.dataset ? CHANGING_SECONDS : POLL_SECONDS;
    setTimeout(() => ask().finally(again), 1000 * seconds);
  }

  addEventListener("online", ask);
  document.addEventListener("visibilitychange", ask);
  again();
  if ("serviceWorker" in navigator) navigator.serviceWorker.register("/d/worker.js", { scope: "/d/" }).catch(() => {});
})();
