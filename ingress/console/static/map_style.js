// The style of the base map, light and dark, for the tiles that `base_map/build.py` makes.

const COLORS = {
  light: {
    water: "#c3d9e6", land: "#f4f3ee", shore: "#9fbccc", country: "#8d8697", state: "#b9b3c2",
    freeway: "#e9a15b", freewayCase: "#b87333", highway: "#d9c08a", town: "#3b4340", name: "#77707f", halo: "#fbfaf7",
  },
  dark: {
    water: "#141d24", land: "#20262a", shore: "#33434e", country: "#7d7689", state: "#4c4a57",
    freeway: "#8d6a3f", freewayCase: "#3d3122", highway: "#544b39", town: "#c4ccc9", name: "#8b8696", halo: "#1a1f22",
  },
};

const ATTRIBUTION = 'Roads © <a href="https://www.openstreetmap.org/copyright">OpenStreetMap</a> contributors,'
  + ' towns © <a href="https://www.geonames.org/">GeoNames</a>, borders Natural Earth';

const by = (...stops) => ["interpolate", ["exponential", 1.4], ["zoom"], ...stops];
const LETTERS = ["system-ui", "Segoe UI", "Roboto", "Arial"];

/** The style in one of the themes. `tiles` is the address of a tile with {z}, {x} and {y}. */
export const baseStyle = (theme, tiles, mostZoom) => {
  const color = COLORS[theme];
  const line = (id, layer, filter, minzoom, paint) => ({
    id, type: "line", source: "base", "source-layer": layer, filter, minzoom, paint,
    layout: { "line-join": "round", "line-cap": "round" },
  });
  const kind = (name) => ["==", ["get", "kind"], name];
  return {
    version: 8,
    sources: { base: { type: "vector", tiles: [tiles], maxzoom: mostZoom, attribution: ATTRIBUTION } },
    layers: [
      { id: "base-water", type: "background", paint: { "background-color": color.water } },
      {
        id: "base-land", type: "fill", source: "base", "source-layer": "land",
        paint: { "fill-color": color.land, "fill-outline-color": color.shore },
      },
      {
        id: "base-lakes", type: "fill", source: "base", "source-layer": "lakes",
        paint: { "fill-color": color.water, "fill-outline-color": color.shore },
      },
      line("base-states", "borders", kind("state"), 2, {
        "line-color": color.state, "line-width": by(3, 0.6, 8, 1.6), "line-dasharray": [3, 2],
      }),
      line("base-countries", "borders", kind("country"), 1, { "line-color": color.country, "line-width": by(3, 1, 8, 2.2) }),
      line("base-highways", "roads", kind("highway"), 5, { "line-color": color.highway, "line-width": by(5, 0.5, 8, 1.6, 13, 5) }),
      line("base-freeway-cases", "roads", kind("freeway"), 7, {
        "line-color": color.freewayCase, "line-width": by(7, 2, 9, 4, 13, 9),
      }),
      line("base-freeways", "roads", kind("freeway"), 3, { "line-color": color.freeway, "line-width": by(3, 0.5, 7, 1.6, 9, 3, 13, 7) }),
      {
        id: "base-state-names", type: "symbol", source: "base", "source-layer": "states", minzoom: 3.4, maxzoom: 8,
        layout: {
          "text-field": ["step", ["zoom"], ["get", "code"], 5, ["get", "name"]], "text-font": LETTERS,
          "text-size": by(3.4, 10, 7, 15), "text-transform": "uppercase", "text-letter-spacing": 0.12, "text-max-width": 7,
        },
        paint: { "text-color": color.name, "text-halo-color": color.halo, "text-halo-width": 1.2 },
      },
      {
        id: "base-towns", type: "symbol", source: "base", "source-layer": "towns", minzoom: 3,
        layout: {
          "symbol-sort-key": ["get", "rank"],
          "icon-image": "disc", "icon-size": by(4, 0.3, 10, 0.5), "icon-optional": false,
          "text-field": ["get", "name"], "text-font": LETTERS, "text-max-width": 8, "text-padding": 4,
          "text-size": ["interpolate", ["linear"], ["zoom"], 4, ["match", ["get", "size"], 0, 12, 10.5],
            10, ["match", ["get", "size"], 0, 18, 1, 15, 12]],
          "text-variable-anchor": ["left", "right", "top", "bottom"], "text-radial-offset": 0.45, "text-justify": "auto",
        },
        paint: {
          "text-color": color.town, "text-halo-color": color.halo, "text-halo-width": 1.4, "icon-color": color.town,
        },
      },
    ],
  };
};
