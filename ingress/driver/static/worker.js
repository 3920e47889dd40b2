"use strict";
// Shows the page as it was last seen when there is no connection, or the service fails. An expired page is forgotten.
const KEPT = "trips";
const PATIENCE_MILLISECONDS = 8000;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function fromNetwork(request) {
  const kept = await caches.open(KEPT);
  const answer = await fetch(request);
  if (answer.ok && !answer.redirected) await kept.put(request.url, answer.clone());
  if (answer.status === 404) await kept.delete(request.url, { ignoreSearch: true });  // in all languages
  return answer;
}

async function newest(request) {
  const kept = await (await caches.open(KEPT)).match(request.url);
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
