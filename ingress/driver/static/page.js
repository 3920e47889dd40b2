"use strict";
// Keeps answers while there is no connection and sends each once; asks for news; keeps the page for the next visit.
(function () {
  const POLL_SECONDS = 60;
  const CHANGING_SECONDS = 1.5;
  const NEW_PLAN_SECONDS = 3;
  const NEW_PLAN_MILLISECONDS = 30000;  // the choices of a plan follow it within this time
  const MOST_SECONDS = 60;
  const BUSY_MILLISECONDS = 60000;  // an open form holds another plan back for this long
  const here = location.pathname + location.search;
  const ANSWERS = "answers ";
  const own = ANSWERS + location.pathname;
  const unkept = new Map();  // the answers in a browser that keeps nothing, by the names under which it would
  let tag = null;
  let asking = false;
  let sending = false;
  let wait = 3;
  let pressed = null;
  let touchedAt = 0;
  let timer = 0;
  let plan = "";
  let isNewUntil = 0;

  function show(id, text) {
    const element = document.getElementById(id);
    if (!element) return;
    element.hidden = !text;
    if (id === "kept") element.textContent = text ? element.dataset[text] : "";
  }

  function isBusy(old, fresh) {
    const active = document.activeElement;
    const fills = old.querySelector("details[open]") !== null || (active !== null && active.tagName === "INPUT");
    return fills && (fresh.dataset.plan === old.dataset.plan || Date.now() - touchedAt < BUSY_MILLISECONDS);
  }

  // What had the focus has it again: what says the same, in the same place among its like.
  function replaceKeepingFocus(old, fresh) {
    const active = document.activeElement;
    const words = (one) => one.getAttribute("aria-label") || one.textContent;
    const alike = (trip) => Array.from(trip.querySelectorAll("a, button, summary")).filter((one) => words(one) === words(active));
    const place = old.contains(active) ? alike(old).indexOf(active) : null;
    old.replaceWith(fresh);
    if (place !== null) (alike(fresh)[place] || fresh).focus({ preventScroll: true });
  }

  function replace(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("trip");
    const old = document.getElementById("trip");
    const waits = fresh && old && isBusy(old, fresh);
    if (waits) tag = null;
    else if (fresh && old && fresh.outerHTML !== old.outerHTML) {
      document.documentElement.lang = fresh.ownerDocument.documentElement.lang;  // that of a kept page may be another
      replaceKeepingFocus(old, fresh);
    }
    askLater();
    return !waits;
  }

  function kept(name) {
    if (unkept.has(name)) return unkept.get(name);
    try {
      return JSON.parse(localStorage.getItem(name) || "[]");
    } catch (error) {
      return [];
    }
  }

  function keep(name, answers) {
    unkept.delete(name);
    try {
      if (answers.length) localStorage.setItem(name, JSON.stringify(answers));
      else localStorage.removeItem(name);
    } catch (error) {
      unkept.set(name, answers);
    }
  }

  // The name of a link with answers. Each message brings a link, and the page of an earlier one may be closed by now.
  function nameToSend() {
    let names = [];
    try {
      names = Object.keys(localStorage).filter((name) => name.startsWith(ANSWERS + "/d/"));
    } catch (error) {
      // a browser that keeps nothing
    }
    return [own].concat(names).find((name) => kept(name).length);
  }

  function newKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  // An answer that is given again before it could be sent takes the place of the first.
  function isSame(one, fields) {
    const other = new URLSearchParams(one);
    return ["plan", "stop", "kind", "choice"].every((field) => other.get(field) === fields.get(field));
  }

  async function sendNext(name) {
    const isOwn = name === own;
    const next = kept(name)[0];
    const sent = new URLSearchParams({ sent: new Date().toISOString() });  // by the clock of `at`, which may be wrong
    const answer = await fetch(isOwn ? here : name.slice(ANSWERS.length), {
      method: "POST",
      body: `${next}&${sent}`,
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      referrerPolicy: "no-referrer",
      redirect: "manual",
    });
    if (answer.status === 404) {
      keep(name, []);
      if (!isOwn) return show("kept", "failed");
      location.reload();
    }
    const isTaken = answer.type === "opaqueredirect";
    if (!isTaken && answer.status !== 400) throw new Error("later");
    keep(name, kept(name).filter((one) => one !== next));
    show("kept", isTaken ? "sent" : "failed");
    tag = null;
    const isShown = isTaken || !isOwn ? await ask(true) : replace(await answer.text());
    if (isShown) document.getElementById("trip").focus({ preventScroll: true });
  }

  async function send() {
    if (sending) return;
    sending = true;
    try {
      for (let name = nameToSend(); name; name = nameToSend()) await sendNext(name);
      wait = 3;
    } catch (error) {
      show("kept", "kept");
      setTimeout(send, 1000 * wait);
      wait = Math.min(2 * wait, MOST_SECONDS);
    } finally {
      sending = false;
    }
  }

  async function ask(isAfterAnswer) {
    if (!isAfterAnswer && (asking || document.hidden)) return false;
    asking = true;
    try {
      const answer = await fetch(here, {
        headers: tag ? { "If-None-Match": tag } : {},
        cache: "no-store",
        referrerPolicy: "no-referrer",
      });
      show("offline", answer.status < 500 ? "" : "offline");
      if (answer.status === 404) location.reload();
      if (answer.ok) {
        tag = answer.headers.get("ETag");
        return replace(await answer.text());
      }
    } catch (error) {
      show("offline", "offline");
    } finally {
      asking = false;
    }
    return false;
  }

  function secondsToNext() {
    const shown = document.getElementById("trip").dataset;
    if ("changing" in shown) return CHANGING_SECONDS;
    if (shown.plan !== plan) isNewUntil = Date.now() + NEW_PLAN_MILLISECONDS;
    plan = shown.plan;
    return Date.now() < isNewUntil && !document.getElementById("choices") ? NEW_PLAN_SECONDS : POLL_SECONDS;
  }

  function askLater() {
    clearTimeout(timer);
    timer = setTimeout(() => ask().finally(askLater), 1000 * secondsToNext());
  }

  for (const kind of ["click", "input"]) document.addEventListener(kind, () => { touchedAt = Date.now(); });
  document.addEventListener("click", (event) => {
    pressed = event.target.closest ? event.target.closest("button") : null;
  });
  document.addEventListener("submit", (event) => {
    event.preventDefault();
    const form = event.target;
    const fields = new URLSearchParams(new FormData(form));
    if (pressed && pressed.form === form && pressed.name) fields.set(pressed.name, pressed.value);
    fields.set("key", newKey());
    fields.set("at", new Date().toISOString());
    form.querySelectorAll("button").forEach((button) => {
      button.disabled = true;
    });
    document.activeElement.blur();  // this form is no longer filled in: what comes of it may take its place
    if (form.closest("details")) form.closest("details").open = false;
    keep(own, kept(own).filter((one) => !isSame(one, fields)).concat(fields.toString()));
    show("kept", "kept");
    send();
  });
  addEventListener("online", () => {
    send();
    ask();
  });
  document.addEventListener("visibilitychange", () => ask());
  askLater();
  setTimeout(ask, 1000 * NEW_PLAN_SECONDS);  // the page may be one that was kept
  send();
  if ("serviceWorker" in navigator) navigator.serviceWorker.register("/d/worker.js", { scope: "/d/" }).catch(() => {});
})();
