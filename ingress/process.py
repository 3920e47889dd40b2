"""One ingress process: uvicorn over the application."""

import os
import resource
import socket

import uvicorn

from domain.errors import FuelrouteError
from domain.observability import get_logger
from domain.settings import Settings
from ingress.app import create_app
from ingress.connections import Bounds, bounded_connections
from ingress.queues import QueueGauges

log = get_logger(__name__)

_OTHER_OPEN_FILES = 256
"""What the process needs beside its connections: those to its servers, libraries, logs."""


PORT_CHOICES = "--port or FUELROUTE_PORT"


class PortTaken(FuelrouteError):
    def __init__(self, host: str, port: int, reason: str, variable: str) -> None:
        super().__init__(f"cannot listen on {host}:{port} ({reason}): choose another port with {variable}")


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT. Raises PortTaken."""
    listener = listen(settings.host, settings.port)
    config = uvicorn.Config(
        create_app(settings),
        loop="uvloop",
        http=bounded_connections(within_open_files(Bounds.of(settings))),
        ws="none",
        timeout_keep_alive=settings.keep_alive_seconds,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing asks who the client is
        timeout_graceful_shutdown=5,
        backlog=2048,
    )
    if settings.metrics_port is not None:
        QueueGauges.start(settings)
    host, port = listener.getsockname()[:2]
    log.info("ingress.ready", host=host, port=port, pid=os.getpid())
    uvicorn.Server(config).run(sockets=[listener])
    log.info("ingress.stopped")
    return 0


def free_port(host: str, port: int, variable: str = PORT_CHOICES) -> int:
    """`port` if it can be listened on, a free one for 0. Raises PortTaken."""
    with listen(host, port, variable) as listener:
        return int(listener.getsockname()[1])


def within_open_files(bounds: Bounds) -> Bounds:
    """The bounds, lowered to what the system lets a process open: beyond that nobody is answered at all."""
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
    """Raises PortTaken, which names the variable."""
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
