// The small map of the page Overview: where the trucks are. It is loaded after the page, once it is in view, and again
// every minute. Without WebGL, or before any truck has sent a position, there is none: the page Map has the list.
import { LATITUDE, addLayers, boundsOf, collection, featureOf, paint } from "./fleet_layers.js";

const EVERY_MS = 60_000;
const MOST_ZOOM = 8; // one truck alone is shown with the towns around it
const place = document.getElementById("overview-map");
const query = new URLSearchParams({ environment: "live", company: place.dataset.company });

const load = async () => {
  const answer = await fetch(`/map/fleet?${query}`);
  if (!answer.ok || answer.redirected) throw new Error("the fleet does not come");
  const { trucks } = await answer.json();
  return trucks.filter((truck) => truck[LATITUDE] !== null);
};

/** The library's style sheet comes late, too: the page does not wait for it. */
const loadStyle = () => new Promise((done, fail) => {
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: place.dataset.style });
  link.addEventListener("load", done);
  link.addEventListener("error", fail);
  document.head.append(link);
});

const draw = async () => {
  place.dataset.state = "loading";
  let map = null;
  try {
    const trucks = await load();
    const bounds = boundsOf(trucks);
    if (bounds) {
      const [{ createMap }] = await Promise.all([import("./map.js"), loadStyle()]);
      map = await createMap(place, { bounds, padding: 30, label: "Small map of the trucks", isPartOfPage: true });
    }
    if (map) {
      if (map.getZoom() > MOST_ZOOM) map.setZoom(MOST_ZOOM);
      addLayers(map);
      map.getSource("fleet").setData(collection(trucks.map(featureOf)));
    }
  } catch (error) {
    console.warn("The page shows no map.", error);
  }
  if (!map) {
    place.dataset.state = "none";
    place.hidden = true;
    return;
  }
  place.map = map; // for tests, and whoever looks at the page in the browser's tools
  map.on("theme", () => paint(map));
  map.on("click", "trucks", ({ features: [feature] }) => location.assign(`/map?truck=${feature.properties.i}`));
  map.on("click", "clusters", async ({ features: [feature] }) => {
    const zoom = await map.getSource("fleet").getClusterExpansionZoom(feature.properties.cluster_id);
    map.easeTo({ center: feature.geometry.coordinates, zoom });
  });
  for (const layer of ["trucks", "clusters"]) {
    map.on("mouseenter", layer, () => { map.getCanvas().style.cursor = "pointer"; });
    map.on("mouseleave", layer, () => { map.getCanvas().style.cursor = ""; });
  }
  place.dataset.state = "shown";
  map.once("idle", () => { place.dataset.state = "drawn"; });
  setInterval(async () => {
    if (document.hidden) return;
    try {
      map.getSource("fleet").setData(collection((await load()).map(featureOf)));
    } catch { /* the console is away: the map stays as it is, and the next minute asks again */ }
  }, EVERY_MS);
};

new IntersectionObserver((seen, observer) => {
  if (!seen.some((one) => one.isIntersecting)) return;
  observer.disconnect();
  (window.requestIdleCallback ?? setTimeout)(draw);
}).observe(place);
