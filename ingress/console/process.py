"""One console process: uvicorn over the pages."""

import os

import uvicorn

from domain.observability import get_logger
from domain.settings import Settings
from ingress.connections import Bounds, bounded_connections
from ingress.console.app import create_console
from ingress.process import listen, within_open_files

log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Serves until SIGTERM or SIGINT. Raises PortTaken."""
    listener = listen(settings.console_host, settings.console_port_or_next(), "--port or FUELROUTE_CONSOLE_PORT")
    config = uvicorn.Config(
        create_console(settings),
        loop="uvloop",
        http=bounded_connections(within_open_files(Bounds.of(settings))),
        ws="none",
        timeout_keep_alive=settings.keep_alive_seconds,
        log_config=None,
        access_log=False,
        server_header=False,
        # the client's address slows down who guesses passwords; https makes cookies secure
        proxy_headers=bool(settings.console_proxies),
        forwarded_allow_ips=settings.console_proxies,
        timeout_graceful_shutdown=5,
    )
    host, port = listener.getsockname()[:2]
    log.info("console.ready", host=host, port=port, pid=os.getpid())
    uvicorn.Server(config).run(sockets=[listener])
    log.info("console.stopped")
    return 0
