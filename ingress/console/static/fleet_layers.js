// Trucks on a map: the pages Map and Overview draw them here, in the same colors.
// A truck comes as an array, see Row in ingress/console/fleet_snapshots.py; these are the places of its fields.
export const [ID, UNIT, DRIVER, LATITUDE, LONGITUDE, HEADING, FUEL, FIX, STATUS, NEEDS, ROUTE, STOP, FUEL_STOP] =
  Array(13).keys();
const CLUSTERED_UP_TO_ZOOM = 9;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** By the number of a status. */
const COLORS = ["--truck-none", "--truck-draft", "--truck-planned", "--truck-active"];
const byStatus = () => ["match", ["get", "s"], ...COLORS.slice(1).flatMap((name, at) => [at + 1, color(name)]), color(COLORS[0])];
const SILENT = 2;

export const featureOf = (truck) => ({
  type: "Feature",
  geometry: { type: "Point", coordinates: [truck[LONGITUDE], truck[LATITUDE]] },
  properties: { i: truck[ID], s: truck[STATUS], n: truck[NEEDS] & ~SILENT ? 1 : 0, q: truck[NEEDS] & SILENT ? 1 : 0, h: truck[HEADING] ?? -1 },
});
export const collection = (features) => ({ type: "FeatureCollection", features });

const canvas = Object.assign(document.createElement("canvas"), { width: 72, height: 36 });
const context = canvas.getContext("2d", { willReadFrequently: true });
const SCALE = 2;
/** A picture that `paint` draws, of that size in CSS pixels. */
const picture = (width, height, paint) => {
  context.setTransform(SCALE, 0, 0, SCALE, 0, 0);
  context.clearRect(0, 0, width, height);
  paint();
  return [context.getImageData(0, 0, width * SCALE, height * SCALE), { pixelRatio: SCALE }];
};
const arrow = () => {
  context.fillStyle = color("--panel");
  context.beginPath();
  for (const [x, y] of [[8, 3], [12, 12], [8, 10], [4, 12]]) context.lineTo(x, y);
  context.fill();
};
const number = (text) => () => {
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = color("--text");
  context.fillText(text, 18, 9);
};
/** The numbers of clusters: 57, 300+, 4k+. They are pictures, since no letters are sure to be there for an operator's
 * own style. */
const NUMBERS = [
  ...Array.from({ length: 98 }, (_, at) => `${at + 2}`),
  ...Array.from({ length: 9 }, (_, at) => `${at + 1}00+`),
  ...Array.from({ length: 99 }, (_, at) => `${at + 1}k+`),
];
const count = ["get", "point_count"];
const numberOfCluster = ["step", count,
  ["to-string", count],
  100, ["concat", ["to-string", ["*", 100, ["floor", ["/", count, 100]]]], "+"],
  1000, ["concat", ["to-string", ["floor", ["/", count, 1000]]], "k+"],
];
const addPictures = (map) => {
  const add = (id, made) => {
    if (map.hasImage(id)) map.removeImage(id);
    map.addImage(id, ...made);
  };
  add("truck arrow", picture(16, 16, arrow));
  for (const text of NUMBERS) add(`number ${text}`, picture(36, 18, number(text)));
};

export const addLayers = (map) => {
  map.addSource("fleet", {
    type: "geojson",
    data: collection([]),
    cluster: true,
    clusterMaxZoom: CLUSTERED_UP_TO_ZOOM,
    clusterRadius: 45,
    clusterProperties: { needs: ["+", ["get", "n"]] },
  });
  map.addSource("chosen", { type: "geojson", data: collection([]) });
  map.addLayer({ id: "trail", source: "chosen", type: "line", filter: ["==", ["geometry-type"], "LineString"] });
  map.addLayer({ id: "clusters", source: "fleet", type: "circle", filter: ["has", "point_count"] });
  map.addLayer({
    id: "numbers", source: "fleet", type: "symbol", filter: ["has", "point_count"],
    layout: {
      "icon-image": ["concat", "number ", numberOfCluster],
      "icon-allow-overlap": true, "icon-ignore-placement": true,
    },
  });
  const single = ["!", ["has", "point_count"]];
  map.addLayer({ id: "trucks", source: "fleet", type: "circle", filter: single });
  map.addLayer({
    id: "headings", source: "fleet", type: "symbol", filter: ["all", single, [">=", ["get", "h"], 0]],
    layout: {
      "icon-image": "truck arrow", "icon-rotate": ["get", "h"], "icon-rotation-alignment": "map",
      "icon-allow-overlap": true, "icon-ignore-placement": true,
    },
  });
  map.addLayer({ id: "ring", source: "chosen", type: "circle", filter: ["==", ["geometry-type"], "Point"] });
  paint(map);
};
/** The colors of the page, which change with its theme. */
export const paint = (map) => {
  const set = (layer, values) => {
    for (const [name, value] of Object.entries(values)) map.setPaintProperty(layer, name, value);
  };
  set("trail", { "line-color": color("--link"), "line-width": 3, "line-opacity": 0.8 });
  set("clusters", {
    "circle-color": color("--panel"),
    "circle-radius": ["step", ["get", "point_count"], 13, 10, 16, 100, 20, 1000, 25],
    "circle-stroke-width": 3,
    "circle-stroke-color": ["case", [">", ["get", "needs"], 0], color("--bad"), color("--truck-active")],
  });
  set("trucks", {
    "circle-color": ["case", ["==", ["get", "q"], 1], color("--panel"), byStatus()],
    "circle-radius": 8,
    "circle-stroke-width": ["case", ["any", ["==", ["get", "n"], 1], ["==", ["get", "q"], 1]], 3, 1.5],
    "circle-stroke-color": ["case", ["==", ["get", "n"], 1], color("--bad"), ["==", ["get", "q"], 1], color("--faint"), color("--panel")],
  });
  set("ring", { "circle-color": color("--panel"), "circle-opacity": 0, "circle-radius": 14, "circle-stroke-width": 3, "circle-stroke-color": color("--link") });
  addPictures(map);
};

export const boundsOf = (some) => {
  let [west, south, east, north] = [180, 90, -180, -90];
  for (const truck of some) {
    if (truck[LATITUDE] === null) continue;
    west = Math.min(west, truck[LONGITUDE]);
    east = Math.max(east, truck[LONGITUDE]);
    south = Math.min(south, truck[LATITUDE]);
    north = Math.max(north, truck[LATITUDE]);
  }
  return west <= east ? [[west, south], [east, north]] : null;
};
