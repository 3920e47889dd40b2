// Draws the reference from the API's description, in the colors of the page's theme. The samples beside it are dark in
// both themes, as Redoc makes them. Redoc computes colors from colors, so it is drawn again when the theme changes.
(() => {
  const options = () => {
    const style = getComputedStyle(document.documentElement)
    const color = name => style.getPropertyValue(name).trim()
    const [ground, panel, text, faint, link, line] =
      ["--ground", "--panel", "--text", "--faint", "--link", "--line"].map(color)
    const answers = { success: "--good", error: "--bad", redirect: "--warn", info: "--link" }
    return {
      disableSearch: true, // the site has its own
      hideDownloadButton: true,
      hideLoading: true,
      hideSchemaPattern: true, // no NUL: the texts say it
      expandResponses: "200,201,202",
      jsonSamplesExpandLevel: "all",
      theme: {
        colors: {
          primary: { main: link },
          text: { primary: text, secondary: faint },
          border: { dark: line, light: line },
          responses: Object.fromEntries(Object.entries(answers).map(([kind, name]) =>
            [kind, { color: color(name), backgroundColor: panel }])),
          http: { get: "#17624f", post: "#0b5c86", delete: "#a4262c" }, // below white letters
        },
        schema: { linesColor: line, typeNameColor: faint, typeTitleColor: faint, requireLabelColor: color("--bad"),
          nestedBackground: ground, arrow: { color: faint } },
        typography: {
          fontSize: "15px", fontFamily: "inherit", headings: { fontFamily: "inherit" },
          code: { color: text, backgroundColor: color("--chip") }, links: { color: link },
        },
        sidebar: { width: "0px", backgroundColor: ground, textColor: text },
      },
    }
  }

  const draw = () => {
    const before = document.getElementById("reference"), fresh = document.createElement("div")
    fresh.id = before.id
    before.replaceWith(fresh)
    Redoc.init("/v1/openapi.json", options(), fresh)
  }

  draw()
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw)
})()
