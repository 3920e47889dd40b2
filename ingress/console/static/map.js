// Maps: every page with one draws it here. The page's head names the files of the library, see _map.html.
import { baseStyle } from "./map_style.js";

const settings = JSON.parse(document.querySelector("meta[name=map]").content);
const dark = matchMedia("(prefers-color-scheme: dark)");
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** The colors that the page wants now: "light" or "dark". */
export const theme = () => (dark.matches ? "dark" : "light");

let loading;
/** MapLibre's module, with `Marker`, `Popup` and the rest. It is loaded once. */
export const mapLibrary = () => (loading ??= import(settings.library).then((library) => {
  library.setWorkerUrl(new URL(settings.worker, location.href).href);
  return library;
}));

/** The layer that lines are drawn below, so that the names of the map stay legible. */
export const lowestNames = (map) => map.getStyle().layers.find((layer) => layer.type === "symbol")?.id;

const hasWebGL = () => Boolean(document.createElement("canvas").getContext("webgl2"));

const ownStyle = () => baseStyle(theme(), location.origin + settings.tiles, settings.mostZoom);

/** The operator's style where its server answers, otherwise that of the base map. */
const styleOfPage = async () => {
  if (!settings.style) return ownStyle();
  try {
    if ((await fetch(settings.style)).ok) return settings.style;
  } catch { /* the base map stands in */ }
  console.warn("The style of FUELROUTE_MAP_STYLE_URL cannot be loaded: the base map is shown.");
  return ownStyle();
};

/** A small disc, which the style colors. */
const disc = (size) => {
  const data = new Uint8ClampedArray(size * size * 4);
  for (let at = 0; at < size * size; at++) {
    const away = Math.hypot((at % size) - size / 2 + 0.5, Math.floor(at / size) - size / 2 + 0.5);
    data[at * 4 + 3] = 255 * Math.max(0, Math.min(1, 0.75 - (away - size / 4) / 8)); // a distance field
  }
  return { width: size, height: size, data };
};

/** Draw a map into the element, which needs a height. Resolves to MapLibre's map once its style is there; to null where
 * the browser cannot draw one, so that the caller shows something else.
 *
 * `bounds`: [[west, south], [east, north]], with `padding` pixels around it; or `center` [longitude, latitude] and
 * `zoom`. `label` names the map for people who cannot see it. `isPartOfPage`: the wheel scrolls the page, and zooms with
 * Ctrl. The map fires "theme" when the colors of the page change: its own are changed by then, those of the caller are
 * the caller's. */
export async function createMap(element, { bounds, center, zoom, padding = 40, label = "Map", isPartOfPage = false } = {}) {
  if (!hasWebGL()) return null;
  let library, map;
  try {
    library = await mapLibrary();
    const style = await styleOfPage();
    map = new library.Map({
      container: element,
      style,
      ...(bounds ? { bounds, fitBoundsOptions: { padding, maxZoom: 12 } } : { center: center ?? [-96, 39], zoom: zoom ?? 3.2 }),
      minZoom: 1.5,
      maxZoom: 15,
      dragRotate: false,
      pitchWithRotate: false,
      touchPitch: false,
      renderWorldCopies: false,
      attributionControl: false,
      cooperativeGestures: isPartOfPage,
      fadeDuration: stillness.matches ? 0 : 200,
      locale: { "Map.Title": label },
    });
  } catch (error) {
    console.warn("The map cannot be drawn.", error);
    return null;
  }
  map.touchZoomRotate.disableRotation();
  map.keyboard.disableRotation();
  map.addControl(new library.NavigationControl({ showCompass: false }), "top-right");
  map.addControl(new library.ScaleControl({ unit: "imperial" }), "top-left");
  map.addControl(new library.AttributionControl({ compact: element.clientWidth < 640 }), "bottom-right");
  map.setMissingStyleImageResolver((id) => {
    if (id === "disc") map.addImage(id, disc(32), { sdf: true, pixelRatio: 2 });
  });
  dark.addEventListener("change", () => {
    if (map.getLayer("base-land")) {
      for (const { id, paint } of ownStyle().layers) {
        for (const [name, value] of Object.entries(paint)) map.setPaintProperty(id, name, value);
      }
    }
    map.fire("theme", { theme: theme() });
  });
  await map.once("load");
  return map;
}
