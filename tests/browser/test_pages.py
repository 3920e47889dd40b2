"""Every page of the console is in the list of pages."""

from starlette.routing import Route

from domain.settings import Settings
from ingress.console.app import create_console
from tests.browser.pages import NO_PAGES, PAGES


def test_every_address_of_the_console_is_listed() -> None:
    app = create_console(Settings(database_url="postgresql://nowhere/none", redis_url="redis://nowhere/0"))
    addresses = {route.path for route in app.routes if isinstance(route, Route) and "GET" in (route.methods or ())}

    assert {visit.address for visit in PAGES} | set(NO_PAGES) == addresses
