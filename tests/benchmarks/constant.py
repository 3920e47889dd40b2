"""The reference: a Starlette endpoint that returns a constant, whatever it is asked. What it serves is 1.0."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def constant(_: Request) -> Response:
    return Response(b'{"status":"draft"}', media_type="application/json")


app = Starlette(routes=[Route("/{path:path}", constant, methods=["GET", "POST"])])
