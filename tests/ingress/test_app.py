"""The application has no layers of its own around requests: the gate is the only one."""

import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse

from domain.settings import Settings
from ingress.app import create_app


def test_middleware_that_would_never_run_is_refused(settings: Settings) -> None:
    with pytest.raises(TypeError, match=r"ingress\.gate"):
        create_app(settings).add_middleware(GZipMiddleware)


def test_an_exception_handler_that_would_never_run_is_refused(settings: Settings) -> None:
    with pytest.raises(TypeError, match=r"ingress\.gate"):
        create_app(settings).add_exception_handler(500, lambda request, error: PlainTextResponse("gone"))
