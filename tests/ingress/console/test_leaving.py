"""A client who leaves ends the work on its file."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from domain.files.route_files import read_columns
from ingress.console import addresses
from ingress.console.refusals import Refused


def test_a_file_is_read_only_while_its_sender_waits(tmp_path: Path) -> None:
    path, left = tmp_path / "loads.csv", threading.Event()
    path.write_text("externalId,stop_name\nA,Joliet\n")

    with addresses._while_waited_for(left):
        assert read_columns(path, "csv") == ["externalId", "stop_name"]
    left.set()
    with pytest.raises(Refused) as refused, addresses._while_waited_for(left):
        read_columns(path, "csv")

    assert refused.value.what_to_do == "Nobody waits for it."


def test_the_end_of_the_connection_is_seen_while_the_file_is_read() -> None:
    async def watch() -> tuple[bool, bool]:
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        left = threading.Event()
        watching = asyncio.create_task(addresses._note_leaving(Request({"type": "http"}, messages.get), left))
        await messages.put({"type": "http.request", "body": b"", "more_body": False})
        await asyncio.sleep(0)
        before = left.is_set()
        await messages.put({"type": "http.disconnect"})
        await asyncio.wait_for(watching, 180)
        return before, left.is_set()

    assert asyncio.run(watch()) == (False, True)
