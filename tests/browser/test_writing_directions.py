"""A name that is written from right to left, or that turns the direction of writing, moves nothing that stands beside
it on a page of the console."""

import pytest
from playwright.sync_api import Browser

from ingress.console.rendering import STATIC

TURNING = "Stop\N{RIGHT-TO-LEFT OVERRIDE}"
ARABIC = "\N{ARABIC LETTER MEEM}\N{ARABIC LETTER REH}"

DIGITS_AS_SEEN = """(paragraph) => {
    const seen = [], texts = document.createTreeWalker(paragraph, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text !== null; text = texts.nextNode())
        for (const found of text.data.matchAll(/[0-9]/g)) {
            const place = document.createRange();
            place.setStart(text, found.index);
            place.setEnd(text, found.index + 1);
            seen.push([place.getBoundingClientRect().left, found[0]]);
        }
    return seen.sort((one, other) => one[0] - other[0]).map(([, digit]) => digit).join("");
}"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "beside",
    [
        f'{TURNING} <span class="faint">mile 123</span>',
        f'<a href="/routes"><strong>{TURNING}</strong></a> <b>12</b>3',
        f'<a href="/routes">{ARABIC}</a> <span>12</span> <span>34</span>',
    ],
)
def test_digits_beside_a_name_are_seen_in_their_order(chromium: Browser, beside: str) -> None:
    page = chromium.new_page()
    try:
        page.set_content(f"<style>{(STATIC / 'console.css').read_text()}</style><p>{beside}</p>")
        seen = page.locator("p").evaluate(DIGITS_AS_SEEN)
    finally:
        page.close()
    assert seen == "".join(sorted(seen))
