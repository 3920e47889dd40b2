"""Serving an application with uvicorn: the socket, the bounds of connections, the end."""

import os
import random
import resource
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp

from domain.errors import FuelrouteError
from domain.settings import Settings
from domain.telemetry.health import Health
from domain.telemetry.logs import get_logger, log_ready
from ingress.http.connection_limits import Bounds, ConnectionLimiter, ProxyNetworks
from ingress.http.draining import DrainingServer
from ingress.http.proxies import behind_proxies
from ingress.http.uvicorn_protocol import bounded_connections

log = get_logger(__name__)

_OTHER_OPEN_FILES = 256
"""Open files of the process besides its connections: servers, libraries, logs."""


PORT_CHOICES = "--port or FUELROUTE_PORT"


class PortTaken(FuelrouteError):
    def __init__(self, host: str, port: int, reason: str, variable: str) -> None:
        super().__init__(f"cannot listen on {host}:{port} ({reason}): choose another port with {variable}")


def server_config(app: ASGIApp, settings: Settings, *, more_proxies: str = "") -> uvicorn.Config:
    """The configuration of uvicorn that our applications share."""
    proxies = ProxyNetworks(",".join(filter(None, (settings.proxies, more_proxies))))
    connections = bounded_connections(within_open_files(Bounds.of(settings)._replace(proxies=proxies)))
    app, options = behind_proxies(app, proxies, connections.limiter, settings.proxy_header)
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=connections,
        ws="none",
        timeout_keep_alive=settings.keep_alive_seconds,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.stop_seconds,
        **options,
    )


def serve(
    name: str,
    config: uvicorn.Config,
    listener: socket.socket,
    settings: Settings,
    health: Health,
    *,
    stopping: Callable[[], None] = lambda: None,
) -> int:
    """Serves until SIGTERM or SIGINT, between the log events `NAME.ready` and `NAME.stopped`. `stopping` is called, in
    the event loop, when it begins to stop. Returns the exit status."""

    def stop() -> None:
        health.note_stopping()
        stopping()

    host, port = listener.getsockname()[:2]
    log_ready(__name__, f"{name}.ready", host=host, port=port, pid=os.getpid())
    limiter: ConnectionLimiter = config.http.limiter  # type: ignore[union-attr]  # of `server_config`
    DrainingServer(config, limiter, drain_seconds=settings.drain_seconds, stopping=stop).run(sockets=[listener])
    log.info(f"{name}.stopped")
    return 0


_FIRST_PORT, _FIRST_OUTGOING_PORT = 10_000, 32_768
"""Ports between these are given to no outgoing connection by Linux, macOS or Windows unless somebody changed that."""

BAD_PORTS = frozenset(
    (1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, *range(6665, 6670), 6679, 6697, 10080)
)
"""Ports above 1023 that browsers do not open a page from (https://fetch.spec.whatwg.org/#bad-port)."""


def free_port(host: str, port: int, variable: str = PORT_CHOICES) -> int:
    """`port` if it can be listened on, or a free one for 0: one that no outgoing connection takes before our process
    listens there, and that browsers open. Raises PortTaken, which names the variable, if it is in use."""
    choices = random.sample(range(_FIRST_PORT, _FIRST_OUTGOING_PORT), 20) if port == 0 else []
    for choice in (one for one in choices if one not in BAD_PORTS):
        with suppress(PortTaken), listen(host, choice, variable):
            return choice
    with listen(host, port, variable) as listener:
        return int(listener.getsockname()[1])


def within_open_files(bounds: Bounds) -> Bounds:
    """The bounds, lowered to the number of files that the system lets a process open. Beyond that number connections
    would get no answer at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = bounds.connections + _OTHER_OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < wanted:
            most = max(soft - _OTHER_OPEN_FILES, 1)
            log.warning("ingress.open_files_limited", connections=most, wanted=bounds.connections)
            return bounds._replace(connections=most)
    return bounds


def listen(host: str, port: int, variable: str = PORT_CHOICES) -> socket.socket:
    """A listening socket. Raises PortTaken, which names the variable, if the port is in use."""
    listener = None
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise PortTaken(host, port, error.strerror or str(error), variable) from None
    return listener
