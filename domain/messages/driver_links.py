"""The link in a message to the page of the driver's trip (`driver_page`).

Each attempt at a message gets a link with a token of its own, in the last moment: the text that is stored has a mask in
the token's place, and the database has the token's hash alone. A copy of the database, and a person who reads the text,
open no page."""

from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from domain.accounts.tokens import hash_of_token, new_token
from domain.database.connections import Connection
from domain.database.statements import Command
from domain.ids import new_id
from domain.messages.message_text import LINK_PATH, with_link

LONGEST_LINK_DAYS = 30
"""Days after which a link has expired whatever its trip does. A trip on which nothing happens is given up before."""

MASK = "***"
"""Stands in stored texts in the place of the token."""


class LinkedTrip(Protocol):
    """A route with its driver. A link opens the page of this route for this driver alone."""

    @property
    def company_id(self) -> UUID: ...
    @property
    def environment(self) -> str: ...
    @property
    def route_id(self) -> UUID: ...
    @property
    def driver_id(self) -> UUID: ...


_INSERT = Command(
    "INSERT INTO driver_links (id, company_id, environment, route_id, driver_id, token_hash, created_at, expires_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)


def issue_driver_link(connection: Connection, trip: LinkedTrip, page_url: str, *, now: datetime) -> str:
    """The address of a trip's page with a fresh token, which nothing else keeps. `page_url` is the public address
    without a path."""
    token = new_token()
    _INSERT.execute(
        connection,
        (
            new_id(),
            trip.company_id,
            trip.environment,
            trip.route_id,
            trip.driver_id,
            hash_of_token(token),
            now,
            now + timedelta(days=LONGEST_LINK_DAYS),
        ),
    )
    return f"{page_url}{LINK_PATH}{token}"


def with_masked_link(text: str, page_url: str | None) -> str:
    """The text as it is stored and shown, with a mask in the place of the token. Without an address of the page it has
    no link."""
    return with_link(text, f"{page_url}{LINK_PATH}{MASK}" if page_url is not None else None)


def with_fresh_link(connection: Connection, text: str, trip: LinkedTrip, page_url: str | None, *, now: datetime) -> str:
    """The text as the driver gets it, with a fresh link to the trip's page. Without an address of the page it has no
    link."""
    return with_link(text, issue_driver_link(connection, trip, page_url, now=now) if page_url is not None else None)
