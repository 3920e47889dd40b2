// The map of a route, over the drawing that stands in for it. Names are other people's texts: they are never markup.
import { createMap, lowestNames, mapLibrary } from "./map.js";

const FOLLOW_ZOOM = 9;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const point = (place, properties) => ({ type: "Feature", geometry: { type: "Point", coordinates: place }, properties });
const all = (features) => ({ type: "FeatureCollection", features });
const line = (places) => all(places.length > 1
  ? [{ type: "Feature", geometry: { type: "LineString", coordinates: places }, properties: {} }] : []);

const make = (tag, options = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...children);
  return element;
};

const boundsOf = (places) => {
  const [west, south, east, north] = places.reduce(
    ([w, s, e, n], [x, y]) => [Math.min(w, x), Math.min(s, y), Math.max(e, x), Math.max(n, y)],
    [Infinity, Infinity, -Infinity, -Infinity]);
  return [[west, south], [east, north]];
};

const groundOf = (container) => JSON.parse(container.dataset.ground);
const movingNow = () => JSON.parse(document.getElementById("now").dataset.moving);

const stationsOf = ({ stations }) => all(stations.map((one, number) => point(one.place, { ...one, number })));
const stopsOf = ({ stops }) => all(stops.map((one, number) => point(one.place, { ...one, number: String(number + 1) })));
const shieldsOf = ({ shields }) => all(shields.map((one) => point(one.place, { name: one.name })));
const trucksOf = ({ truck }) => all(truck ? [point(truck, {})] : []);

/** A triangle that points at the truck's place, as in the drawing. */
const truckImage = () => {
  const size = 48, canvas = make("canvas", { width: size, height: size }), pen = canvas.getContext("2d");
  pen.fillStyle = color("bad");
  pen.strokeStyle = color("panel");
  pen.lineWidth = 4;
  pen.lineJoin = "round";
  pen.beginPath();
  for (const [x, y] of [[size / 2, size - 4], [6, 6], [size - 6, 6]]) pen.lineTo(x, y);
  pen.closePath();
  pen.fill();
  pen.stroke();
  return pen.getImageData(0, 0, size, size);
};

const FONT = ["system-ui", "Segoe UI", "Roboto", "Arial"];
const BOLD = ["Arial Bold", ...FONT];
const grow = (near, far) => ["interpolate", ["linear"], ["zoom"], 4, near, 10, far];

const layers = (isRoad) => {
  const label = { "text-color": color("text"), "text-halo-color": color("panel"), "text-halo-width": 2 };
  const smooth = { "line-join": "round", "line-cap": "round" };
  return [
    { id: "road-case", type: "line", source: "road", layout: smooth, paint: { "line-color": color("panel"), "line-width": 8 } },
    {
      id: "road", type: "line", source: "road", layout: smooth,
      paint: { "line-color": color("link"), "line-width": 5.5, ...(isRoad ? {} : { "line-dasharray": [1, 2] }) },
    },
    { id: "driven", type: "line", source: "driven", layout: smooth, paint: { "line-color": color("driven"), "line-width": 2 } },
    {
      id: "shields", type: "symbol", source: "shields", minzoom: 5,
      layout: { "text-field": ["get", "name"], "text-font": BOLD, "text-size": 12, "text-padding": 12, "text-anchor": "bottom", "text-offset": [0, -0.6] },
      paint: { "text-color": color("link"), "text-halo-color": color("panel"), "text-halo-width": 3 },
    },
    {
      id: "rejected", type: "circle", source: "stations", filter: ["!", ["get", "chosen"]],
      paint: {
        "circle-radius": grow(3, 6), "circle-color": color("panel"), "circle-stroke-color": color("warn"), "circle-stroke-width": 2,
      },
    },
    {
      id: "chosen", type: "circle", source: "stations", filter: ["get", "chosen"],
      paint: {
        "circle-radius": grow(7, 10), "circle-color": color("strong"), "circle-stroke-color": color("panel"), "circle-stroke-width": 3,
      },
    },
    {
      id: "prices", type: "symbol", source: "stations", minzoom: 6.5, filter: ["!", ["get", "chosen"]],
      layout: {
        "text-field": ["get", "price"], "text-font": FONT, "text-size": 11,
        "text-variable-anchor": ["top", "bottom", "left", "right"], "text-radial-offset": 0.8,
      },
      paint: label,
    },
    {
      id: "chosen-prices", type: "symbol", source: "stations", filter: ["get", "chosen"],
      layout: {
        "text-field": ["get", "price"], "text-font": BOLD, "text-size": 13, "text-allow-overlap": true,
        "text-variable-anchor": ["top", "bottom", "left", "right"], "text-radial-offset": 1,
      },
      paint: label,
    },
    {
      id: "stops", type: "circle", source: "stops",
      paint: {
        "circle-radius": 10, "circle-color": ["case", ["get", "reached"], color("link"), color("panel")],
        "circle-stroke-color": color("link"), "circle-stroke-width": 3,
      },
    },
    {
      id: "stop-numbers", type: "symbol", source: "stops",
      layout: { "text-field": ["get", "number"], "text-font": FONT, "text-size": 13, "text-allow-overlap": true, "text-ignore-placement": true },
      paint: { "text-color": ["case", ["get", "reached"], color("panel"), color("link")] },
    },
    {
      id: "truck", type: "symbol", source: "truck",
      layout: { "icon-image": "truck", "icon-anchor": "bottom", "icon-allow-overlap": true, "icon-ignore-placement": true },
    },
  ];
};

/** Draw everything of the route that is not there, and show it as it is now. */
const show = (map, ground, moving) => {
  const data = {
    road: line(ground.road), driven: line(ground.driven), shields: shieldsOf(ground), stations: stationsOf(ground), stops: stopsOf(moving), truck: trucksOf(moving),
  };
  for (const [name, features] of Object.entries(data)) {
    if (map.getSource(name)) map.getSource(name).setData(features);
    else map.addSource(name, { type: "geojson", data: features });
  }
};

const paint = (map, ground) => {
  if (map.hasImage("truck")) map.updateImage("truck", truckImage());
  else map.addImage("truck", truckImage(), { pixelRatio: 2 });
  const drawn = layers(ground.is_road);
  for (const { id } of drawn) if (map.getLayer(id)) map.removeLayer(id);
  const names = lowestNames(map);
  for (const layer of drawn) map.addLayer(layer, layer.type === "line" ? names : undefined);
};

/** What is said of a station. */
const words = ({ name, price, about, why }) =>
  make("div", {}, make("strong", { textContent: name }), make("div", { textContent: `${about}, ${price}` }), make("div", { textContent: why }));

/** The answers to a pointer, and the list by which the keyboard comes to each station. */
const explain = async (map, part, current) => {
  const { Popup } = await mapLibrary();
  const popup = new Popup({ closeButton: false, closeOnClick: false, focusAfterOpen: false, maxWidth: "20rem", offset: 12 });
  const open = (place, content) => popup.setLngLat(place).setDOMContent(content).addTo(map);
  for (const id of ["rejected", "chosen", "stops"]) {
    map.on("mouseenter", id, () => { map.getCanvas().style.cursor = "pointer"; });
    map.on("mouseleave", id, () => { map.getCanvas().style.cursor = ""; popup.remove(); });
    for (const happening of ["mousemove", "click"]) {
      map.on(happening, id, ({ features: [{ properties, geometry }] }) => {
        const station = id !== "stops" && current().stations[properties.number];
        open(geometry.coordinates, station ? words(station) : make("strong", { textContent: `${properties.number}. ${properties.name}` }));
      });
    }
  }

  const select = make("select"), said = make("output");
  const list = make("p", { className: "station-list" }, make("label", {}, "Station along the road ", select), " ", said);
  const fill = () => {
    const { stations } = current();
    select.replaceChildren(make("option", { value: "", textContent: `choose one of ${stations.length}` }), ...stations.map(
      (one, number) => make("option", { value: String(number), textContent: `${one.about}: ${one.name}, ${one.price}${one.chosen ? ", fuel here" : ""}` })));
    said.textContent = "";
    list.hidden = !stations.length;
  };
  select.addEventListener("change", () => {
    const station = select.value && current().stations[Number(select.value)];
    said.textContent = station ? station.why : "";
    if (!station) return void popup.remove();
    open(station.place, words(station));
    if (!map.getBounds().contains(station.place)) map.easeTo({ center: station.place });
  });
  fill();
  part.append(list);
  return () => { popup.remove(); fill(); };
};

const draw = async (part) => {
  let ground = groundOf(part), moving = movingNow();
  const area = make("div", { className: "map-area" });
  part.append(area);
  part.dataset.state = "loading";
  part.hidden = false;
  const places = [...ground.road, ...ground.stations.map((one) => one.place), ...moving.stops.map((one) => one.place)];
  const map = await createMap(area, {
    bounds: boundsOf(moving.truck ? [...places, moving.truck] : places), label: "Map of the route", isPartOfPage: true,
  });
  if (!map) {
    part.hidden = true;
    part.dataset.state = "none";
    area.remove();
    return;
  }
  show(map, ground, moving);
  paint(map, ground);
  map.on("theme", () => paint(map, ground));
  const renew = await explain(map, part, () => ground);

  const following = make("input", { type: "checkbox" });
  const follow = make("label", { className: "choice", hidden: !moving.truck }, following, " Follow the truck");
  const look = () => following.checked && moving.truck
    && map.easeTo({ center: moving.truck, zoom: Math.max(map.getZoom(), FOLLOW_ZOOM) });
  following.addEventListener("change", look);
  part.append(follow);

  // each refresh changes the part that moves, and another plan replaces all but this map
  new MutationObserver(() => {
    const fresh = document.querySelector(".now > .route-map");
    const isNewPlan = fresh && fresh !== part;
    if (isNewPlan) {
      ground = groundOf(fresh);
      fresh.replaceWith(part);
      map.resize();
    }
    if (!document.getElementById("now")) return;
    const before = moving.truck;
    moving = movingNow();
    if (moving.truck && String(moving.truck) !== String(before) && ground.driven.length) ground.driven.push(moving.truck);
    show(map, ground, moving);
    if (isNewPlan) {
      paint(map, ground);
      renew();
    }
    follow.hidden = !moving.truck;
    if (String(moving.truck) !== String(before)) look();
  }).observe(document.querySelector("main"), { childList: true, subtree: true, attributeFilter: ["data-moving"] });
  part.dataset.state = "shown";
  map.once("idle", () => { part.dataset.state = "drawn"; });
};

const part = document.querySelector(".now > .route-map");
if (part) draw(part);
