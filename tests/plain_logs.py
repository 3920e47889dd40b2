"""The log of tests that set up none: structlog's own, but for its tracebacks."""

import structlog


def log_plainly() -> None:
    """Shows tracebacks as Python does. Those of structlog show every variable, which takes rich a second of processor
    time for each, and on a busy machine the ten after which a sweep takes over."""
    structlog.reset_defaults()
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, renderer])
