"""The terminal for the output of commands."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from domain.text import printable


class Terminal(Console):
    """Prints texts of people and other systems literally: brackets are no markup, and control characters, which might
    steer the terminal, are spelled out. A value that must not end its line goes through `printable` before."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        is_styled = self.is_terminal  # asked now: a fork of `up` writes to a log
        for segment in super().render(renderable, options):
            if segment.control is None:
                yield Segment(printable(segment.text, keep="\n"), segment.style if is_styled else None)
            else:
                yield segment
