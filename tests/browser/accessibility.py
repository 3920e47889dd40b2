"""Pages for everybody: no violation of WCAG 2 A and AA, nothing beyond the edge of the screen, and nothing that the
keyboard does not reach."""

from collections.abc import Callable, Sequence

from playwright.sync_api import BrowserContext, Page, ViewportSize

from tests.browser.chromium import AXE, THEMES, WIDTHS

_HEIGHT = 900
_PHONE, _DESK, _WALL = WIDTHS
_THEMES_AT = {_PHONE: THEMES[:1], _DESK: THEMES, _WALL: ()}
_MARK_ALIKE = """
    axe.configure({rules: [{id: "color-contrast", selector: ":not([data-alike])"}]});
    window.markAlike = () => {
        const looks = new Map(), lookOf = new Map(), texts = new Map();
        for (const element of document.querySelectorAll("*")) {
            const style = getComputedStyle(element), text = [...element.childNodes].filter(node => node.nodeType === 3);
            const description = [
                lookOf.get(element.parentElement), element.tagName, element.getAttribute("class"),
                style.color, style.background, style.opacity, style.position, style.fontSize, style.fontWeight,
                style.textShadow, element.checkVisibility(), element.matches(":disabled, [aria-disabled=true]"),
            ].join();
            const look = looks.get(description) ?? looks.size;
            looks.set(description, look);
            lookOf.set(element, look);
            const counts = text.some(node => /\\w\\w/.test(node.data)) && !element.closest("label, svg");
            if (counts) texts.set(look, 1 + (texts.get(look) ?? 0));
            element.toggleAttribute("data-alike", counts && texts.get(look) > 3);
        }
    };"""
"""The contrast of texts that look alike is judged for the first three: texts in elements of the same names, classes,
colors and sizes, as have all elements around them. Axe takes 0.4 ms for each text."""
_LOAD_AXE = AXE + _MARK_ALIKE
_AXE = """([leftOut, rules]) => {
    markAlike();
    return axe.run({exclude: leftOut}, {...rules, resultTypes: ["violations"]}).then(found => [
        ...found.incomplete.filter(rule => rule.error).map(rule => `${rule.id} failed: ${rule.error.message}`),
        ...found.violations.flatMap(rule => rule.nodes.map(
            node => `${rule.id}: ${node.html.slice(0, 200)}: ${node.failureSummary}`)),
    ]);
}"""
_OF_COLORS = ["color-contrast", "link-in-text-block"]
_RULES: dict[str, object] = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
_RULES_OF_COLORS: dict[str, object] = {"runOnly": _OF_COLORS}
_RULES_BUT_OF_COLORS = _RULES | {"rules": {rule: {"enabled": False} for rule in _OF_COLORS}}
_BEYOND = """() => [...document.querySelectorAll("body *")].filter(element =>
    element.checkVisibility() && !element.closest(".unseen, .skip, svg") && (
        element.getBoundingClientRect().right > innerWidth + 1 || element.scrollWidth > innerWidth + 1
    )).map(element => element.outerHTML.slice(0, 160)).slice(-3)"""
"""The innermost elements that reach beyond the edge, or whose text does."""


EVERYWHERE = ("body > header", "#pages")
"""The parts that all pages of the console have."""


def keep_axe(context: BrowserContext) -> None:
    """Have the browser keep axe for pages that are judged one after the other. Each would read it anew."""
    context.add_init_script(f"window.loadAxe = () => {{ {_LOAD_AXE}; return true; }};")


def assert_accessible(
    page: Page,
    until_shown: Callable[[], object] = lambda: None,
    *,
    left_out: Sequence[str] = (),
    widths: Sequence[int] = WIDTHS,
) -> None:
    """Judge a page in the light theme on a phone and at a desk. `until_shown` waits for a page that is drawn anew when
    the theme changes. Elements that are `left_out` are judged on another page.

    Judging takes long, that of colors longest. The dark theme has other colors in the same places, so it is judged at a
    desk only, by the rules of colors. A phone has colors of its own only in its menu and its tabs: where parts are left
    out, colors are judged at a desk. On the wall a page has the parts of the desk, so only its edge is looked at."""
    if not page.evaluate("window.loadAxe?.() ?? false"):
        page.evaluate(_LOAD_AXE)
    faults: dict[str, list[str]] = {}
    shown = None
    for width in widths:
        size: ViewportSize = {"width": width, "height": _HEIGHT}
        if page.viewport_size != size:
            page.set_viewport_size(size)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults[f"beyond the edge at {width}"] = page.evaluate(_BEYOND)
        for theme in _THEMES_AT[width]:
            if theme != shown:
                page.emulate_media(color_scheme=theme)
                shown = theme
            until_shown()
            if theme == "dark":
                rules = _RULES_OF_COLORS
            else:
                rules = _RULES_BUT_OF_COLORS if left_out and width == _PHONE else _RULES
            if found := page.evaluate(_AXE, [left_out, rules]):
                faults[f"{theme}, {width}"] = found
    assert not faults, "\n".join([page.url, *(f"{where}: {what}" for where, all in faults.items() for what in all)])


def assert_reached_by_keyboard(page: Page, part: str) -> None:
    """The keyboard reaches everything in a part of the page in order, and shows where it is. It begins anew where the
    page's stream has replaced something under it."""
    for _ in range(5):
        fault = _fault_of_keyboard(page, part)
        if not fault or page.evaluate("stops.every(stop => stop.isConnected)"):
            break
    assert not fault


def _fault_of_keyboard(page: Page, part: str) -> str:
    stops = page.evaluate(_STOPS, [part, _MOST_STOPS[part]])
    reached: list[int] = []
    pressed = 0
    while len(reached) < len(stops):
        if pressed >= 4 * len(stops):
            return f"the keyboard does not get beyond {stops[: len(reached)][-1:]}"
        for _ in range(len(stops) - len(reached)):
            page.keyboard.press("Tab")
            pressed += 1
        for number, html, has_outline, is_seen in page.evaluate("visited.splice(0)"):
            if reached and number == reached[-1]:  # the parts of a date
                continue
            if number != len(reached):
                return f"after {stops[: len(reached)][-1:]} comes {html}"
            if not has_outline:
                return f"it does not show that it has the keyboard: {html}"
            if not is_seen:
                return f"not on the screen: {html}"
            reached.append(number)
    return ""


_MOST_STOPS = {"body": 40, "main": 25, ".route-map": 10}
_STOPS = """([part, most]) => {
    const isStop = element => element.checkVisibility() && !element.disabled && element.tabIndex >= 0
        && !element.closest("details:not([open]) > :not(summary)");
    const groups = new Set(), whole = document.querySelector(part);
    window.stops = [...whole.querySelectorAll(
        "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")].filter(isStop).filter(
        element => element.type !== "radio" || !groups.has(element.name) && groups.add(element.name)).slice(0, most);
    whole.tabIndex = -1;
    whole.focus(); // the next key starts at the top
    window.visited = [];
    onkeyup = () => {
        const element = document.activeElement, box = element.getBoundingClientRect();
        const style = getComputedStyle(element);
        visited.push([
            stops.indexOf(element),
            element.outerHTML.slice(0, 200),
            style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
            box.width > 1 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        ]);
    };
    return stops.map(element => element.outerHTML.slice(0, 200));
}"""
"""The first stops of the keyboard: everything that can be used, in the order of the page. `visited` notes each place to
which a key leads, so that one question tells of many keys."""
