"""Checks of keys: the key that seals contacts, and the API keys of companies."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from domain.accounts.contacts import Contacts, is_sealed
from domain.database.statements import NotNull, Statement
from domain.ids import shown_id
from domain.operations.doctor.checks import Examined, Finding, problem, warning


class _Stored(NamedTuple):
    """Stored secrets with an equal beginning: the fingerprint of the key that sealed them, or none in the clear."""

    rows: int
    example: NotNull[str]
    """One of them."""


_SEALED_ALIKE = Statement(
    _Stored,
    """
    SELECT count(*) AS rows, min(secret) AS example FROM (
        SELECT contact AS secret FROM drivers WHERE contact IS NOT NULL
        UNION ALL SELECT message_url FROM companies WHERE message_url IS NOT NULL
        UNION ALL SELECT totp_secret FROM users WHERE totp_secret IS NOT NULL) AS stored
    GROUP BY CASE WHEN starts_with(secret, 'sealed:') THEN split_part(secret, ':', 2) ELSE '' END
    """,
)


def check_contact_key(seen: Examined) -> Iterator[Finding]:
    """Opens one secret of each key that sealed any. Nothing of it is shown."""
    contacts = Contacts.of(seen.settings)
    unreadable = in_clear = older = 0
    for row in _SEALED_ALIKE.all(seen.connection):
        if not is_sealed(row.example):
            in_clear += row.rows
        elif is_sealed(contacts.open_or_keep(row.example) or ""):
            unreadable += row.rows
        elif not row.example.startswith(contacts.prefix or ""):
            older += row.rows
    if unreadable:
        yield problem(
            f"{unreadable:,} stored contacts, message URLs or secrets of one-time codes are sealed with a key that"
            " FUELROUTE_CONTACT_KEY does not have",
            "Add the key that sealed them to FUELROUTE_CONTACT_KEY, after a comma; without it enter them again",
        )
    if in_clear and contacts.prefix is None:
        yield warning(
            f"{in_clear:,} contacts, message URLs or secrets of one-time codes are stored in the clear",
            "Set FUELROUTE_CONTACT_KEY for all processes; housekeeping then seals them within the hour",
        )
    elif in_clear + older:
        yield warning(
            f"{in_clear + older:,} stored secrets are not sealed with the newest key yet",
            "Nothing, if the key was set within the hour; else see whether housekeeping runs",
        )


class _Keys(NamedTuple):
    id: UUID
    ended: int
    """The number of its keys, all of which are revoked or expired."""


_WITHOUT_KEY = Statement(
    _Keys,
    """
    SELECT c.id, count(k.id) AS ended FROM companies c LEFT JOIN api_keys k ON k.company_id = c.id
    WHERE c.retired_at IS NULL GROUP BY c.id
    HAVING count(*) FILTER (WHERE k.id IS NOT NULL AND k.revoked_at IS NULL
                            AND (k.expires_at IS NULL OR k.expires_at > %s)) = 0
    ORDER BY c.id
    """,
)


def check_api_keys(seen: Examined) -> Iterator[Finding]:
    rows = _WITHOUT_KEY.all(seen.connection, (seen.now,))
    for found, what in (
        ([row for row in rows if row.ended], "Companies have keys, and all are expired or revoked"),
        ([row for row in rows if not row.ended], "Companies have no API key"),
    ):
        if found:
            yield warning(
                f"{what}: {len(found):,}",
                "Make a key if the company is still a customer: fuelroute keys create; else retire it",
                tuple(shown_id("cmp", row.id) for row in found[: seen.most_examples]),
            )
