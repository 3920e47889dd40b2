"""One ingress process: uvicorn over the application."""

from domain.settings import Settings
from domain.telemetry.health import Health
from ingress.api.queue_gauges import QueueGauges
from ingress.app import create_app
from ingress.http.serving import listen, serve, server_config


def run(settings: Settings, health: Health) -> int:
    """Serves until SIGTERM or SIGINT. Raises PortTaken."""
    listener = listen(settings.host, settings.port)
    app = create_app(settings, health)
    config = server_config(app, settings)
    if settings.metrics_port is not None:
        QueueGauges.start(settings)
    return serve("ingress", config, listener, settings, health)
