"""The cases of `tests/cases/telematics`, and a vendor's HTTP that answers with them."""

import json
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from domain.connectors.vendor import VendorAnswer
from domain.connectors.vendor_http import BoundedHttp
from tests.domain.connectors.helpers import LOOPBACK

FOLDER = Path(__file__).parents[2] / "cases" / "telematics"


def case(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


class Answers(BoundedHttp):
    """Gives the answers in order, and the last one again and again."""

    def __init__(self, answers: Iterable[Any]) -> None:
        super().__init__(allowed=LOOPBACK)
        self._answers = deque(one if isinstance(one, bytes) else json.dumps(one).encode() for one in answers)
        self.asked: list[str] = []

    async def request(self, method: Any, url: str, **_: Any) -> VendorAnswer:
        self.asked.append(url)
        return VendorAnswer(200, {}, self._answers.popleft() if len(self._answers) > 1 else self._answers[0])
