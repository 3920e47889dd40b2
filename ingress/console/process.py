"""One console process: uvicorn over the pages."""

from domain.settings import Settings
from domain.telemetry.health import Health
from ingress.console.app import create_console
from ingress.http.serving import listen, serve, server_config


def run(settings: Settings, health: Health) -> int:
    """Serve until SIGTERM or SIGINT. Raises PortTaken, which names the variable, if the port is in use."""
    listener = listen(settings.console_host, settings.console_port_or_next(), "--port or FUELROUTE_CONSOLE_PORT")
    app = create_console(settings, health)
    # By the client's address guesses of passwords are slowed down; https makes cookies secure.
    config = server_config(app, settings, more_proxies=settings.console_proxies)
    return serve("console", config, listener, settings, health, stopping=app.state.console.streams.end)
