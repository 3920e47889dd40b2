"""Structured logs, the same for every process. Events are static names; ids are fields; secrets are neither."""

import functools
import logging
import sys
import threading
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from domain.settings import Settings
from domain.text import printable, without_secrets

if TYPE_CHECKING:
    import structlog


def configure_logging(settings: Settings, process: str) -> None:
    """JSON lines (or text) on standard error, from structlog and from every library's logging."""
    from domain.telemetry.log_lines import configure_lines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(configure_lines(settings, process))
    _send_logs_to(handler, settings)


def configure_logging_of_a_command(settings: Settings) -> None:
    """Sets up the log of a command, which loads structlog only when a line is logged."""
    _send_logs_to(_FirstLine(settings), settings)


class _FirstLine(logging.Handler):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def emit(self, record: logging.LogRecord) -> None:
        self.configure()
        logging.getLogger().handle(record)

    def configure(self) -> None:
        configure_logging(self._settings, "command")


def _send_logs_to(handler: logging.Handler, settings: Settings) -> None:
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it would log addresses; outcomes are ours to log
    for talkative in ("alembic", "apscheduler", "dramatiq", "httpx", "httpcore", "uvicorn.access", "psycopg.pool"):
        logging.getLogger(talkative).setLevel(max(logging.WARNING, root.level))
    sys.excepthook = _print_unforeseen
    threading.excepthook = _print_unforeseen_of_a_thread


def _print_unforeseen(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a traceback as Python does, with secrets masked and control characters escaped in the error's text."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(printable(without_secrets(text), keep="\n"))


def _print_unforeseen_of_a_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_type is not SystemExit:  # which ends a thread in silence
        _print_unforeseen(failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback)


class _Logger:
    """Loads structlog when the first line is logged."""

    def __init__(self, name: str) -> None:
        self._name = name

    @functools.cached_property
    def _writer(self) -> "structlog.stdlib.BoundLogger":
        from domain.telemetry.log_lines import line_writer

        return line_writer(self._name)

    def __getattr__(self, method: str) -> Any:
        for handler in logging.getLogger().handlers:  # each time: this logger may be older than the command
            if isinstance(handler, _FirstLine):
                handler.configure()
        return getattr(self._writer, method)


def get_logger(name: str) -> "structlog.stdlib.BoundLogger":
    """The logger of a module: `log = get_logger(__name__)`."""
    return cast("structlog.stdlib.BoundLogger", _Logger(name))


def log_ready(name: str, event: str, **fields: Any) -> None:
    """Logs that a process is ready, whatever the level of the log: `fuelroute up` waits for this line."""
    from domain.telemetry.log_lines import write_ready_line

    write_ready_line(name, event, fields)
