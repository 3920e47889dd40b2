"""The methods that an address takes, for the header `Allow` of a 405."""

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Scope


def allowed_methods(scope: Scope) -> str:
    """Every method of the address of a request. Each method may be a route of its own, so the router knows only one."""
    path: str = scope["path"]
    routes: list[BaseRoute] = scope["app"].routes
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, Route) and route.path_regex.match(path):
            methods |= route.methods or set()
        elif isinstance(route, Mount) and route.path_regex.match(path):
            methods |= {"GET", "HEAD"}  # files
    return ", ".join(sorted(methods))
