"""The labels of a request in measurements."""

from starlette.types import Scope


def measured_as(scope: Scope) -> tuple[str, str]:
    """Method and path of a request in measurements. Both are names of the service, however the request was written, so
    there are few of them."""
    route = scope.get("route")
    method, methods = scope["method"], getattr(route, "methods", None) or ()
    return method if method in methods else "-", getattr(route, "path", "(none)")
