// The page Map: every truck on the map and in the list beside it. The fleet is loaded once; after that a stream of
// events tells the trucks in view that have changed. Without WebGL there is no map: the list is the page.
import {
  ID, UNIT, DRIVER, LATITUDE, LONGITUDE, FUEL, FIX, STATUS, NEEDS, ROUTE, STOP, FUEL_STOP,
  addLayers, boundsOf, collection, featureOf, paint,
} from "./fleet_layers.js";

const QUIET_MS = 12_000;
const MOVED_MS = 400;
const AGES_MS = 20_000;
const RETRY_MS = 5_000;

const page = document.getElementById("fleet");
const list = document.getElementById("trucks");
const filter = document.getElementById("fleet-filter");
const panel = document.getElementById("truck");
const environment = page.dataset.environment;
const statuses = JSON.parse(page.dataset.statuses); // name and words, in the order of their numbers
const needs = JSON.parse(page.dataset.needs); // the same in the order of their bits
const most = Number(page.dataset.most);
const query = (more) => new URLSearchParams({ environment, company: page.dataset.company, ...more });

const trucks = new Map(); // by id, in the order of their units
let clockAhead = 0; // of the server before this browser, in ms
let known = 0; // the time of the fleet that was loaded
let told = 0; // the time up to which the stream has told the changes in view
let map = null;
let chosen = "";

// --- Filter -------------------------------------------------------------------------------------------------------

const wanted = () => {
  const field = (name) => filter.elements[name].value.trim().toLowerCase();
  const status = field("status"), need = field("need");
  return {
    unit: field("unit"),
    driver: field("driver"),
    status: status === "" ? -1 : statuses.findIndex(([name]) => (name || "none") === status),
    bit: need === "" ? 0 : 1 << needs.findIndex(([name]) => name === need),
  };
};
const fits = (truck, { unit, driver, status, bit }) =>
  (status < 0 || truck[STATUS] === status)
  && (!bit || (truck[NEEDS] & bit) !== 0)
  && (!unit || truck[UNIT].toLowerCase().includes(unit))
  && (!driver || truck[DRIVER].toLowerCase().includes(driver));

// --- List ---------------------------------------------------------------------------------------------------------

const age = (truck) => {
  if (truck[FIX] === null) return "no position yet";
  const minutes = (Date.now() + clockAhead) / 60_000 - truck[FIX] / 60;
  if (minutes < -1) return "simulated";
  if (minutes < 1) return "now";
  if (minutes < 60) return `${Math.floor(minutes)} min ago`;
  if (minutes < 60 * 24) return `${Math.floor(minutes / 60)} h ago`;
  const days = Math.floor(minutes / 60 / 24);
  return `${days.toLocaleString("en")} ${days === 1 ? "day" : "days"} ago`;
};
const about = (truck) => [
  truck[DRIVER],
  truck[ROUTE],
  truck[FUEL] === null ? "" : `fuel ${truck[FUEL]} %`,
  age(truck),
  truck[STOP] && `next ${truck[STOP]}`,
  truck[FUEL_STOP] && `fuel at ${truck[FUEL_STOP]}`,
].filter(Boolean).join(" · ");
// Trucks that need somebody come first in the list, then those on their way, then those with a position.
const RANKS = 4;
const active = statuses.findIndex(([name]) => name === "active");
const rankOf = (truck) => (truck[NEEDS] ? 0 : truck[STATUS] === active ? 1 : truck[LATITUDE] !== null ? 2 : 3);
const needsOf = (truck) => needs.filter((_, bit) => (truck[NEEDS] >> bit) & 1).map(([, words]) => words);

const element = (name, className, text) => Object.assign(document.createElement(name), { className, textContent: text });
const pathOf = (id) => `/map/trucks/${id}?${new URLSearchParams({ environment })}`;

const items = new Map(); // the list's items by the id of their truck
const itemOf = (truck) => {
  let item = items.get(truck[ID]);
  if (!item) {
    const link = document.createElement("a");
    link.href = pathOf(truck[ID]);
    link.append(element("strong", "", ""));
    item = document.createElement("li");
    item.dataset.truck = truck[ID];
    item.append(link);
    items.set(truck[ID], item);
  }
  const look = [truck[UNIT], truck[STATUS], truck[NEEDS], about(truck)].join("\n");
  if (item.look === look) return item;
  item.look = look;
  item.querySelector("strong").textContent = truck[UNIT] || "no unit number";
  while (item.childNodes.length > 1) item.lastChild.remove(); // the link stays, and keeps the focus
  const [name, words] = statuses[truck[STATUS]];
  for (const part of [
    element("span", `badge ${name}`, words),
    ...needsOf(truck).map((need) => element("span", "badge error", need)),
    element("span", "faint", about(truck)),
  ]) item.append(" ", part);
  return item;
};

const say = (text) => {
  const count = document.getElementById("fleet-count");
  if (count.textContent !== text) count.textContent = text; // said again only when it is news
};
const counted = (number) => `${number.toLocaleString("en")} ${number === 1 ? "truck" : "trucks"}`;
const showList = () => {
  const want = wanted(), view = map && viewOf(map);
  const byRank = Array.from({ length: RANKS }, () => []);
  let fitting = 0, unplaced = 0;
  for (const truck of trucks.values()) {
    if (!fits(truck, want)) continue;
    fitting++;
    if (truck[LATITUDE] === null) unplaced++;
    if (!view || truck[LATITUDE] === null || isIn(view, truck)) byRank[rankOf(truck)].push(truck);
  }
  const found = byRank.flat();
  const shown = found.slice(0, most).map(itemOf), focused = document.activeElement;
  shown.forEach((item, place) => {
    if (list.children[place] !== item) list.insertBefore(item, list.children[place] ?? null);
    item.toggleAttribute("data-chosen", item.dataset.truck === chosen);
  });
  while (list.children.length > shown.length) list.lastElementChild.remove();
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true }); // its item has moved
  for (const [id, item] of items) if (!item.isConnected) items.delete(id);
  const rest = found.length > most ? `; the first ${most} are listed` : "";
  const inView = `${(found.length - unplaced).toLocaleString("en")} of ${counted(fitting)} in view`;
  const others = unplaced ? `, ${unplaced.toLocaleString("en")} without a position` : "";
  say(map ? `${inView}${others}${rest}` : `${counted(fitting)}${rest}`);
  document.getElementById("no-trucks").hidden = fitting > 0;
};

// --- View ---------------------------------------------------------------------------------------------------------

const viewOf = (map) => {
  const bounds = map.getBounds();
  return [bounds.getWest(), bounds.getSouth(), bounds.getEast(), bounds.getNorth()];
};
const isIn = ([west, south, east, north], truck) =>
  truck[LATITUDE] >= south && truck[LATITUDE] <= north && truck[LONGITUDE] >= west && truck[LONGITUDE] <= east;
const holds = (outer, inner) =>
  outer[0] <= inner[0] && outer[1] <= inner[1] && outer[2] >= inner[2] && outer[3] >= inner[3];
const area = ([west, south, east, north]) => (east - west) * (north - south);
/** Half a view more on each side, so that a small move asks for nothing. */
const widened = ([west, south, east, north]) => {
  const across = (east - west) / 2, up = (north - south) / 2;
  return [Math.max(-180, west - across), Math.max(-90, south - up), Math.min(180, east + across), Math.min(90, north + up)];
};
const WORLD = [-180, -90, 180, 90];

// --- Stream -------------------------------------------------------------------------------------------------------

const still = document.getElementById("still"), full = document.getElementById("full");
let source = null, asked = null, opened = 0, heard = Date.now();

const listen = () => {
  const bounds = map ? widened(viewOf(map)) : WORLD;
  const since = asked && holds(asked, bounds) ? told : known; // what lay outside was not told since it was loaded
  source?.close();
  asked = bounds;
  opened = Date.now();
  source = new EventSource(`/map/stream?${query({ since, bounds: bounds.map((one) => one.toFixed(4)).join() })}`);
  source.addEventListener("figures", (event) => {
    const { at, trucks: changed } = JSON.parse(event.data);
    told = Math.max(told, at);
    take(changed);
    hear();
  });
  source.addEventListener("same", hear);
  source.addEventListener("over", () => { source.close(); location.reload(); });
  source.addEventListener("full", () => { source.close(); full.hidden = false; });
};
const showStillness = () => {
  const isStill = Date.now() - heard > QUIET_MS && full.hidden;
  if (isStill) still.querySelector("[data-since]").textContent = `since ${clockOfPage(heard)}`;
  still.hidden = !isStill;
};
const hear = () => {
  heard = Date.now();
  showStillness();
};
/** The stream follows the view: it is asked again once the view has left its part of the world, or is far smaller. */
const followView = () => {
  const view = viewOf(map);
  if (source && full.hidden && (!holds(asked, view) || area(asked) > 40 * area(view))) listen();
};

/** Puts trucks that are new, or have another unit number, in their places. One without a number comes last. */
const place = (joining) => {
  for (const truck of joining) trucks.delete(truck[ID]);
  const rows = [...trucks.values()];
  for (const truck of joining) {
    const unit = truck[UNIT];
    const next = rows.findIndex((other) => unit && (!other[UNIT] || unit < other[UNIT]));
    rows.splice(next < 0 ? rows.length : next, 0, truck);
  }
  trucks.clear();
  for (const truck of rows) trucks.set(truck[ID], truck);
};
const take = (changed) => {
  if (!changed.length) return;
  const joining = changed.filter((truck) => truck.length > 1 && trucks.get(truck[ID])?.[UNIT] !== truck[UNIT]);
  for (const truck of changed) {
    if (truck.length === 1) trucks.delete(truck[ID]);
    else trucks.set(truck[ID], truck);
  }
  if (joining.length) place(joining);
  showList();
  draw();
};

// --- Map ----------------------------------------------------------------------------------------------------------

let isDue = false;
/** The map is drawn anew once it stands: a map that is being moved has no time for it. */
const draw = () => {
  if (!map) return;
  if (map.isMoving()) {
    if (!isDue) map.once("moveend", () => { isDue = false; draw(); });
    isDue = true;
    return;
  }
  const want = wanted(), features = [];
  for (const truck of trucks.values()) if (truck[LATITUDE] !== null && fits(truck, want)) features.push(featureOf(truck));
  map.getSource("fleet").setData(collection(features));
  drawChosen();
};
const drawChosen = () => {
  if (!map) return;
  const truck = trucks.get(chosen), card = panel.querySelector("[data-trail]");
  const features = [];
  if (card?.dataset.truck === chosen) {
    const trail = JSON.parse(card.dataset.trail);
    if (trail.length > 1) features.push({ type: "Feature", geometry: { type: "LineString", coordinates: trail }, properties: {} });
  }
  if (truck && truck[LATITUDE] !== null) features.push(featureOf(truck));
  map.getSource("chosen").setData(collection(features));
};

const startMap = async (loaded) => {
  const place = document.getElementById("fleet-map"), legend = document.getElementById("fleet-legend");
  place.dataset.state = "loading";
  place.hidden = legend.hidden = false;
  page.classList.add("with-map");
  let made = null;
  try {
    const { createMap } = await import("./map.js");
    made = await createMap(place, { label: "Map of the trucks" });
  } catch (error) {
    console.warn("The page shows no map.", error);
  }
  if (!made) {
    place.dataset.state = "none";
    place.hidden = legend.hidden = true;
    page.classList.remove("with-map");
    return;
  }
  addLayers(made);
  made.on("theme", () => paint(made));
  await loaded;
  page.map = made; // for tests, and whoever looks at the page in the browser's tools
  const bounds = boundsOf(trucks.values());
  if (bounds) made.fitBounds(bounds, { padding: 40, maxZoom: 10, animate: false });
  map = made;
  let moved;
  map.on("moveend", () => {
    clearTimeout(moved);
    moved = setTimeout(() => { showList(); followView(); }, MOVED_MS);
  });
  for (const layer of ["trucks", "clusters"]) {
    map.on("mouseenter", layer, () => { map.getCanvas().style.cursor = "pointer"; });
    map.on("mouseleave", layer, () => { map.getCanvas().style.cursor = ""; });
  }
  map.on("click", "trucks", ({ features: [feature] }) => open(feature.properties.i));
  map.on("click", "clusters", async ({ features: [feature] }) => {
    const zoom = await map.getSource("fleet").getClusterExpansionZoom(feature.properties.cluster_id);
    map.easeTo({ center: feature.geometry.coordinates, zoom });
  });
  draw();
  showList();
  place.dataset.state = "shown";
  map.once("idle", () => { place.dataset.state = "drawn"; });
};

// --- One truck ----------------------------------------------------------------------------------------------------

const remember = () => {
  const fields = [...new FormData(filter)].filter(([, value]) => value);
  document.querySelectorAll("[data-filter]").forEach((one) => { one.value = new URLSearchParams(fields); });
  if (chosen) fields.push(["truck", chosen]);
  history.replaceState(null, "", `/map?${new URLSearchParams(fields)}`);
};
const open = async (id) => {
  chosen = id;
  remember();
  await htmx.ajax("GET", pathOf(id), { target: "#truck", swap: "innerHTML" });
  const close = element("button", "quiet", "Close");
  close.type = "button";
  close.addEventListener("click", () => shut(id));
  panel.append(close);
  panel.querySelector("h2")?.focus();
  const truck = trucks.get(id);
  if (map && truck && truck[LATITUDE] !== null && !isIn(viewOf(map), truck)) {
    map.easeTo({ center: [truck[LONGITUDE], truck[LATITUDE]] });
  }
  showList();
  drawChosen();
};
const shut = (id) => {
  chosen = "";
  remember();
  panel.replaceChildren();
  showList();
  drawChosen();
  (items.get(id)?.querySelector("a") ?? filter.elements.unit).focus();
};
new MutationObserver(drawChosen).observe(panel, { childList: true, subtree: true });
list.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(link.closest("li").dataset.truck);
});
panel.addEventListener("keydown", (event) => { if (event.key === "Escape") shut(chosen); });

// --- Start --------------------------------------------------------------------------------------------------------

filter.addEventListener("submit", (event) => { event.preventDefault(); narrow(); });
filter.addEventListener("input", () => narrow());
const narrow = () => {
  remember();
  if (!known) return; // the page's own list stays until the fleet has come
  showList();
  draw();
};
const load = async () => {
  for (;;) {
    try {
      const answer = await fetch(`/map/fleet?${query()}`);
      if (answer.redirected) return location.reload(); // nobody is signed in any more
      if (answer.ok) {
        const { at, now, trucks: rows } = await answer.json();
        clockAhead = now * 1000 - Date.now();
        known = told = at;
        hear();
        trucks.clear();
        for (const truck of rows) trucks.set(truck[ID], truck);
        return;
      }
    } catch { /* the console is away: it is asked again */ }
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
};
const loaded = load();
setInterval(() => {
  if (document.hidden || (known && !source)) return; // the fleet has come, and the map is being made
  showStillness();
  const isLost = source && (source.readyState === EventSource.CLOSED || Date.now() - heard > 3 * QUIET_MS);
  if (isLost && full.hidden && Date.now() - opened > QUIET_MS) listen();
}, 1_000);
const first = new URLSearchParams(location.search).get("truck");
const mapped = startMap(loaded);
await loaded;
list.replaceChildren();
showList();
await mapped;
page.dataset.ready = "";
heard = Date.now();
listen();
if (first && trucks.has(first)) open(first);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return source.close();
  full.hidden = true;
  heard = Date.now();
  listen();
});
setInterval(() => { if (!document.hidden) showList(); }, AGES_MS);
