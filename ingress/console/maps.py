"""Pages with a map: their Content-Security-Policy, and the settings of their scripts.

The base map's tiles are in the package, see `base_map`. Only these pages load the map's library, and no map service is
asked, so none learns where the trucks are. An operator may use the style of an own map server instead."""

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from domain.settings import Settings
from ingress.console.base_map.tiles import MOST_ZOOM, tile_address, tile_at
from ingress.console.browser import POLICY
from ingress.console.rendering import STATIC, static_url

_WORKER = "maplibre-gl-worker.mjs"


def map_settings(settings: Settings) -> dict[str, Any]:
    """The values that `static/map.js` reads from the page."""
    return {
        "library": static_url("maplibre-gl.mjs"),
        "worker": static_url(_WORKER),
        "tiles": tile_address(),
        "mostZoom": MOST_ZOOM,
        "style": settings.map_style_url,
    }


def map_policy(settings: Settings) -> str:
    """The policy of a page with a map. It adds to the policy of all pages our own workers and the pictures of the map's
    buttons, which its style sheet holds; and an operator's map server, for its style, tiles and letters."""
    server = _origin(settings.map_style_url) if settings.map_style_url else ""
    parts = {name: sources for name, _, sources in (part.strip().partition(" ") for part in POLICY.split(";"))}
    parts |= {
        "img-src": f"{parts['img-src']} data: {server}",
        "connect-src": f"{parts['connect-src']} {server}",
        "font-src": f"'self' {server}",
        "worker-src": "'self'",
    }
    return "; ".join(f"{name} {sources}".strip() for name, sources in parts.items())


def _origin(url: str) -> str:
    """The scheme, host and port of an address."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


def with_map(settings: Settings, response: Response) -> Response:
    """Let the answered page show a map. Its template calls `map_head` of `_map.html`."""
    response.headers["Content-Security-Policy"] = map_policy(settings)
    return response


def map_addresses(settings: Settings) -> list[Route]:
    """The addresses of map files that the folder of static files cannot serve: the tiles of the base map; and the
    worker, which fetches an operator's tiles, so its file comes with the policy."""
    return [
        Route("/static/base-map/{z:int}/{x:int}/{y:int}", _tile, methods=["GET"]),
        Route(f"/static/{_WORKER}", partial(_worker, settings), methods=["GET"]),
    ]


async def _tile(request: Request) -> Response:
    parts = request.path_params
    return Response(
        tile_at(parts["z"], parts["x"], parts["y"]),
        headers={"Content-Encoding": "gzip"},
        media_type="application/vnd.mapbox-vector-tile",
    )


async def _worker(settings: Settings, _: Request) -> Response:
    return with_map(settings, FileResponse(STATIC / _WORKER, media_type="text/javascript"))
