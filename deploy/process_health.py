"""Asks the processes on this machine how they are.

A container asks every 15 seconds. So this needs Python's own library alone: with the others it would take five times as
long."""

import http.client
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 (compared, not bound)
_TIMEOUT_SECONDS = 3.0
"""Time for an answer; a report comes within a second."""


def is_surely_well() -> bool:
    """True if the process on the one port of FUELROUTE_METRICS_PORT is alive. False also where that is not so plain:
    then `fuelroute health` finds out, and says what is wrong."""
    port = os.environ.get("FUELROUTE_METRICS_PORT", "")
    if not port.isdecimal() or int(port) > 65535:
        return False
    found = list(reports(os.environ.get("FUELROUTE_METRICS_HOST", ""), [int(port)], "/healthz"))
    return bool(found) and all(one["ok"] for one in found)


def reports(host: str, ports: Iterable[int], path: str) -> Iterator[dict[str, Any]]:
    """The reports of the processes that answer on these ports, at this path."""
    for port in ports:
        connection = http.client.HTTPConnection(_ANY_ADDRESS.get(host, host), port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            report = json.loads(answer.read())
            yield {
                "port": port,
                "process": str(report["process"]),
                "ok": answer.status == 200,
                "checks": report["checks"],
            }
        except (ConnectionRefusedError, ValueError, LookupError, TypeError, http.client.HTTPException):
            continue  # no process, or none of ours
        except OSError:  # it does not answer in time
            yield {"port": port, "process": "unknown", "ok": False, "checks": {}}
        finally:
            connection.close()
