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

_WITHOUT_GRAPHICS_CARD = ("--enable-unsafe-swiftshader", "--disable-gpu-compositing")
"""WebGL on a machine without a graphics card. All else is drawn without imitating one, which takes 6 % more processor
time."""

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
        arguments = [*_WITHOUT_GRAPHICS_CARD, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
