"""The browser: Debian's Chromium, driven by Playwright, which never fetches one of its own."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

NO_CHROMIUM = "no Chromium is installed: apt install chromium-headless-shell"

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDTHS = (390, 1280, 1920)
"""The widths of a phone, a desk, and a screen on the wall."""

_DRAWS_MAPS = ("--enable-unsafe-swiftshader",)
"""WebGL on a machine without a graphics card. Pages without a map are drawn as without it."""

NO_WEBGL = """{
    const canvas = HTMLCanvasElement.prototype, getContext = canvas.getContext;
    canvas.getContext = function (kind, ...more) {
        return kind.startsWith("webgl") ? null : getContext.call(this, kind, ...more);
    };
}"""
"""A script after which the browser is like one without WebGL. Axe needs a canvas of the other kind to judge colors."""

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()


def find_chromium() -> str | None:
    """The path of the headless shell, which needs half of Chromium's processor time, else of Chromium."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@contextmanager
def running_chromium(path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # root has no sandbox: only our own pages are opened
        arguments = [*_DRAWS_MAPS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
