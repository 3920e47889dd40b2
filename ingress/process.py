"""One ingress process: uvicorn over the application."""

import os
import socket

import uvicorn

from domain.errors import Trouble
from domain.settings import Settings
from domain.telemetry import get_logger
from ingress.app import create_app

log = get_logger(__name__)


class PortTaken(Trouble):
    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"cannot listen on {host}:{port} ({reason}): choose another with --port or FUELROUTE_PORT")


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT. Raises PortTaken."""
    listener = _listen(settings.host, settings.port)
    config = uvicorn.Config(
        create_app(settings),
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing asks who the client is
        timeout_graceful_shutdown=5,
        backlog=2048,
    )
    host, port = listener.getsockname()[:2]
    log.info("ingress.ready", host=host, port=port, pid=os.getpid())
    uvicorn.Server(config).run(sockets=[listener])
    log.info("ingress.stopped")
    return 0


def free_port(host: str, port: int) -> int:
    """`port` if it can be listened on, a free one for 0. Raises PortTaken."""
    with _listen(host, port) as listener:
        return int(listener.getsockname()[1])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        raise PortTaken(host, port, error.strerror or str(error)) from None
    return listener
