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

// The browser's time zone, offered to a company that has another one.
const ownZone = document.getElementById("own-zone");
if (ownZone) {
  const typed = document.querySelector("input[name=time_zone]"), offer = ownZone.querySelector("button");
  offer.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
  ownZone.hidden = typed.value === offer.textContent;
  offer.addEventListener("click", () => {
    typed.value = offer.textContent;
    ownZone.hidden = true;
  });
}

// Only one menu of a row is open at a time, and Escape closes it.
document.addEventListener("toggle", (event) => {
  const opened = event.target;
  if (!opened.open || !opened.closest(".actions, .more")) return;
  for (const other of opened.parentElement.querySelectorAll("details[open]")) if (other !== opened) other.open = false;
  opened.querySelector("input:not([type=hidden]), select")?.focus();
}, true);
document.addEventListener("keydown", (event) => {
  const opened = event.key === "Escape" && event.target.closest("details[open]:not(#pages *)");
  if (!opened) return;
  opened.open = false;
  opened.querySelector("summary").focus();
});

// The time of day in the company's zone and form, as all times of the page.
const clockOfPage = (at) => new Date(at).toLocaleTimeString("en-US", {
  hourCycle: "h23", timeZone: document.documentElement.dataset.zone, timeZoneName: "short",
});

// What the top of the page says. Screen readers say it again only when it is news.
const say = (text) => {
  const notices = document.getElementById("notices");
  if (notices.textContent === text) return;
  const said = Object.assign(document.createElement("p"), { className: "notice bad", role: "alert", textContent: text });
  notices.replaceChildren(said);
};

// An answer of htmx's that is not ours, such as a proxy's 502, takes the place of no part: that could not ask again. The
// top of the page says it, as it says what we refuse, until the same part or form is answered.
let told, toldAt;
const asksAgain = (element) => element.getAttribute("hx-trigger")?.startsWith("every");
const tellAway = ({ sourceElement }) => {
  if (told !== sourceElement) toldAt = Date.now();
  told = sourceElement;
  say(asksAgain(sourceElement) ? `The console does not answer: this page stands still since ${clockOfPage(toldAt)}. It goes on by itself.`
    : "The console does not answer. Load the page again, and look whether this was done.");
};
document.addEventListener("htmx:before:response", (event) => {
  const { ctx } = event.detail, isRefused = ctx.response.status >= 400;
  if (isRefused && !ctx.response.headers.has("HX-Retarget")) {
    event.preventDefault();
    tellAway(ctx);
  } else if (isRefused) told = ctx.sourceElement;
  else if (told === ctx.sourceElement) {
    told = undefined;
    document.getElementById("notices").replaceChildren();
  }
});
document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx && !event.detail.ctx.response) tellAway(event.detail.ctx);
});

// A console that hangs answers nothing, not even with an error. The page says so after a while, and goes on waiting.
const LATE_MS = 5_000, LATE = "The console has not answered yet. This page goes on waiting.";
document.addEventListener("htmx:before:request", ({ detail: { ctx } }) => {
  const tellLate = () => { told = ctx.sourceElement; say(LATE); };
  ctx.late = asksAgain(ctx.sourceElement) ? setTimeout(() => tellAway(ctx), QUIET_MS) : setTimeout(tellLate, LATE_MS);
});
for (const answered of ["htmx:before:response", "htmx:finally:request"]) {
  document.addEventListener(answered, ({ detail: { ctx } }) => clearTimeout(ctx.late));
}
// For what htmx does not send. Call the result once it is answered.
const waitAloud = () => {
  const timer = setTimeout(() => say(LATE), LATE_MS), notices = document.getElementById("notices");
  return () => {
    clearTimeout(timer);
    if (notices.textContent === LATE) notices.replaceChildren();
  };
};

// A part that updates itself: <div data-stream="ADDRESS"> shows what the stream of events tells. When it tells nothing
// for a while, #still says so: figures that stand still look like those of a healthy service. A hidden page has no stream.
const QUIET_MS = 12_000;
for (const part of document.querySelectorAll("[data-stream]")) {
  const still = document.getElementById("still"), full = document.getElementById("full");
  let source, opened = 0, heard = Date.now();
  const show = () => {
    const isStill = Date.now() - heard > QUIET_MS && full.hidden;
    if (isStill) still.querySelector("[data-since]").textContent = `since ${clockOfPage(heard)}`;
    still.hidden = !isStill;
    part.classList.toggle("still", isStill || !full.hidden);
  };
  const hear = () => {
    heard = Date.now();
    if (!part.isConnected) return;
    document.querySelector("[data-heard]").textContent = `; looked again at ${clockOfPage(heard)}`;
    show();
  };
  const open = () => {
    source?.close();
    opened = Date.now();
    source = new EventSource(part.dataset.stream);
    source.addEventListener("figures", (event) => {
      htmx.swap({ text: event.data, target: part, sourceElement: part, swap: "innerMorph" });
      hear();
    });
    source.addEventListener("same", hear);
    source.addEventListener("over", () => { source.close(); location.reload(); });
    source.addEventListener("full", () => { source.close(); full.hidden = false; show(); });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !part.isConnected) source.close();
    else { full.hidden = true; heard = Date.now(); open(); }
  });
  const ticking = setInterval(() => {
    if (!part.isConnected) { // a dropped file has led to another page
      source.close();
      return clearInterval(ticking);
    }
    if (document.hidden) return;
    show();
    const isLost = source.readyState === EventSource.CLOSED || Date.now() - heard > 3 * QUIET_MS;
    if (isLost && full.hidden && Date.now() - opened > QUIET_MS) open();
  }, 1_000);
  open();
}
// A file is sent as the body of a request: <form data-upload data-most="BYTES">. The page that follows it is then shown.
// With data-into="ID" the other fields go into the address, and an answer without a redirect is shown in that element.
const fieldsOf = (form, submitter) => {
  const fields = new Map([["filename", form.elements.file.files[0].name]]);
  for (const field of form.elements) {
    if (!field.name || ["file", "submit"].includes(field.type) || field.name === "form_token") continue;
    fields.set(field.name, fields.has(field.name) ? `${fields.get(field.name)},${field.value}` : field.value);
  }
  if (submitter?.name) fields.set(submitter.name, submitter.value);
  return new URLSearchParams([...fields]);
};
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form[data-upload]")) return;
  event.preventDefault();
  const file = form.elements.file.files[0];
  const notices = document.getElementById("notices");
  const into = document.getElementById(form.dataset.into);
  const button = event.submitter ?? form.querySelector("button");
  const label = button.textContent, focused = document.activeElement;
  if (file.size > Number(form.dataset.most)) return say("This file is too large: send it in several parts.");
  const busy = [...form.elements].filter((one) => one.matches("button:enabled, select:enabled")); // one look at a time
  for (const one of busy) one.disabled = true;
  button.textContent = "Sending…";
  const answered = waitAloud();
  try {
    const address = into ? `${form.action}?${fieldsOf(form, button)}` : form.action;
    const answer = await fetch(address, {
      method: "POST",
      body: file,
      headers: { "Content-Type": "text/csv", "X-Form-Token": form.elements.form_token.value, "HX-Request": "true", "HX-Current-URL": location.href },
    });
    if (answer.redirected) return location.assign(answer.url);
    if (answer.headers.has("HX-Redirect")) return location.assign(answer.headers.get("HX-Redirect"));
    if (!answer.ok && !answer.headers.has("HX-Retarget")) throw new Error("a proxy's answer");
    (answer.ok && into ? into : notices).innerHTML = await answer.text(); // our own words, escaped where they are made
    if (answer.ok) notices.replaceChildren();
  } catch {
    const isThere = await file.slice(0, 1).arrayBuffer().then(() => true, () => false);
    say(isThere ? "The file could not be sent: the console does not answer."
      : "The file could not be read: choose it again, if it was changed since. A folder cannot be sent.");
  } finally {
    answered();
  }
  for (const one of busy) one.disabled = false;
  button.textContent = label;
  // what was disabled meanwhile, or has come anew, loses the focus
  if (document.activeElement === document.body) (focused.isConnected ? focused : form.elements[focused.name])?.focus();
});

// What was shown of another file means nothing for this one.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-upload][data-into]");
  if (form && event.target.type === "file") document.getElementById(form.dataset.into).replaceChildren();
});

// The plans before in a fuel profile: <input data-shows-version="1"> lays the first one over the current one.
document.addEventListener("change", (event) => {
  const number = event.target.dataset.showsVersion;
  if (number) document.querySelector(`[data-version="${number}"]`).classList.toggle("shown", event.target.checked);
});

// A double click, an impatient one, and a key that is held send a form once. They made two keys, of which the first was
// never shown. Forms that a script sends, such as those with a file, stay on their page, and may be sent again at once.
const TWICE_MS = 10_000; // as long as a page may wait for its turn
let sentAt = new WeakMap();
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  const sender = event.submitter ?? event.target, before = sentAt.get(sender);
  if (before === undefined || event.timeStamp - before > TWICE_MS) {
    const isDownload = event.target.getAttribute("action")?.endsWith(".csv"); // then this page stays
    if (!isDownload) addEventListener("pagehide", waitAloud(), { once: true });
    return sentAt.set(sender, event.timeStamp);
  }
  event.preventDefault();
  say("This was sent, and its answer is on its way.");
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.repeat && event.target.closest("form") && event.target.localName !== "textarea") event.preventDefault();
});
addEventListener("pageshow", () => { sentAt = new WeakMap(); }); // also that of a page to which somebody goes back
