"use strict";
// Shows the page as it was last seen when there is no connection, or the service fails: one page of a trip is kept, in
// the language in which it was seen last. An expired page is forgotten.
const KEPT = "trips";
const PATIENCE_MILLISECONDS = 8000;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function fromNetwork(request) {
  const kept = await caches.open(KEPT);
  const answer = await fetch(request);
  const isSeen = answer.ok && !answer.redirected;
  if (!isSeen && answer.status !== 404) return answer;
  const before = await kept.keys(request.url, { ignoreSearch: true });  // in all languages
  if (isSeen) await kept.put(request.url, answer.clone());  // fails where the connection breaks within the page
  const has = new URL(request.url).search;
  for (const one of before) if (!isSeen || new URL(one.url).search !== has) await kept.delete(one);
  return answer;
}

async function newest(request) {
  const kept = await (await caches.open(KEPT)).match(request.url, { ignoreSearch: true });
  if (!kept) return fromNetwork(request);
  const late = new Promise((resolve) => setTimeout(() => resolve(kept), PATIENCE_MILLISECONDS));
  const usable = (answer) => (answer.ok || answer.status === 404 ? answer : kept);
  const answered = fromNetwork(request).then(usable, () => kept);
  return Promise.race([answered, late]);
}

self.addEventListener("fetch", (event) => {
  const request = event.request;
  if (request.method !== "GET" || !new URL(request.url).pathname.startsWith("/d/")) return;
  const opens = request.mode === "navigate" || request.destination === "script";
  event.respondWith(opens ? newest(request) : fromNetwork(request));
});
