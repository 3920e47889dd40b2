"""A process's metrics and health over HTTP: on a port of their own, never on the one that strangers reach."""

import socket
import socketserver
import threading
from typing import Any

from prometheus_client.exposition import MetricsHandler

from domain.errors import FuelrouteError
from domain.settings import Settings
from domain.telemetry.health import Health
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import PROCESS
from domain.telemetry.metrics_at_scrape import registry_of

log = get_logger(__name__)


class NoMetricsPort(FuelrouteError):
    def __init__(self, settings: Settings, reason: str) -> None:
        super().__init__(
            f"cannot serve metrics on {settings.metrics_host}:{settings.metrics_port} ({reason}): "
            "give FUELROUTE_METRICS_PORT a free port for each process, such as 9110-9129"
        )


def serve_metrics(settings: Settings, process: str, health: Health) -> int | None:
    """Serves this process's metrics and health in a thread, on the first of its ports that is free. Returns that port,
    or None where no port is set. Raises NoMetricsPort when all its ports are taken."""
    reason = "no address"
    for port in settings.metrics_ports():
        try:
            server = _Server(settings.metrics_host, port, health)
        except OSError as error:  # taken by another process, most likely: the next one may be free
            reason = error.strerror or str(error)
            continue
        PROCESS.labels(process).set(1)
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        log.info("metrics.ready", host=settings.metrics_host, port=port)
        return port
    if settings.metrics_port is None:
        return None
    raise NoMetricsPort(settings, reason)


_MAX_CONNECTIONS = 16


class _Handler(MetricsHandler):
    timeout = 5  # a connection that says nothing
    server: "_Server"

    def setup(self) -> None:
        super().setup()
        self.registry = self.server.registry

    def do_GET(self) -> None:
        reports = {"/healthz": self.server.health.alive, "/readyz": self.server.health.ready}
        report = reports.get(self.path.partition("?")[0])
        if report is None:
            super().do_GET()
            return
        found = report()
        self.send_response(found.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        self.wfile.write(found.body)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, health: Health) -> None:
        self.health = health
        self.registry = registry_of(health)
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        self._places = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__((host, port), _Handler)

    def verify_request(self, request: object, client_address: object) -> bool:
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Logs nothing when a scraper breaks off."""
