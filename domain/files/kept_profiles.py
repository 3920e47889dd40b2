"""Profiles that companies keep after they have mapped the columns of a file."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from domain.database.connections import Connection, as_json
from domain.database.statements import Command, Scalar
from domain.errors import FuelrouteError
from domain.files.profiles import FileProfile

MOST_PROFILES = 100
"""Most profiles of one subject that a company keeps."""


_LIST = Scalar(
    dict[str, Any], "SELECT profile FROM file_profiles WHERE company_id = %s AND subject = %s ORDER BY name LIMIT %s"
)
_READ = Scalar(dict[str, Any], "SELECT profile FROM file_profiles WHERE company_id = %s AND subject = %s AND name = %s")
_KEEP = Command(
    "INSERT INTO file_profiles (company_id, subject, name, profile, changed_at) VALUES (%s, %s, %s, %s, %s)"
    " ON CONFLICT (company_id, subject, name) DO UPDATE SET profile = excluded.profile,"
    " changed_at = excluded.changed_at"
)
_REMOVE = Command("DELETE FROM file_profiles WHERE company_id = %s AND subject = %s AND name = %s")


_ANSWERS = "layouts"
"""The subject under which answers stand; their names are digests of the files' columns."""
MOST_ANSWERS = 1_000
_FORGET = Command(
    "DELETE FROM file_profiles WHERE company_id = %(company_id)s AND subject = %(subject)s AND name IN (SELECT name"
    " FROM file_profiles WHERE company_id = %(company_id)s AND subject = %(subject)s ORDER BY changed_at DESC, name"
    " OFFSET %(most)s)"
)


class TooManyProfiles(FuelrouteError):
    def __init__(self) -> None:
        super().__init__(f"a company keeps {MOST_PROFILES} profiles at most: remove one")


def kept_profiles(connection: Connection, company_id: UUID, subject: str) -> list[FileProfile]:
    return [_profile(kept) for kept in _LIST.all(connection, (company_id, subject, MOST_PROFILES))]


def read_kept_profile(connection: Connection, company_id: UUID, subject: str, name: str) -> FileProfile | None:
    kept = _READ.first(connection, (company_id, subject, name))
    return _profile(kept) if kept is not None else None


def keep_profile(connection: Connection, company_id: UUID, profile: FileProfile, *, now: datetime) -> None:
    """Keep a profile under its name, in place of one with that name. Raises TooManyProfiles beyond the limit."""
    kept = kept_profiles(connection, company_id, profile.subject)
    if len(kept) >= MOST_PROFILES and profile.name not in {one.name for one in kept}:
        raise TooManyProfiles
    document = msgspec.to_builtins(profile)
    _KEEP.execute(connection, (company_id, profile.subject, profile.name, as_json(document), now))


def remove_profile(connection: Connection, company_id: UUID, subject: str, name: str) -> bool:
    """Removes a profile. Returns False if the company keeps none with that name."""
    return _REMOVE.execute(connection, (company_id, subject, name)).rowcount == 1


def keep_answer(
    connection: Connection, company_id: UUID, layout: str, answer: dict[str, Any], *, now: datetime
) -> None:
    """Keep what a person has decided about files with these columns, and forget the oldest beyond `MOST_ANSWERS`."""
    _KEEP.execute(connection, (company_id, _ANSWERS, layout, as_json(answer), now))
    _FORGET.execute(connection, {"company_id": company_id, "subject": _ANSWERS, "most": MOST_ANSWERS})


def read_answer(connection: Connection, company_id: UUID, layout: str) -> dict[str, Any] | None:
    """A person's decision about files with these columns; None if nobody has decided."""
    return _READ.first(connection, (company_id, _ANSWERS, layout))


def _profile(kept: dict[str, Any]) -> FileProfile:
    return msgspec.convert(kept, FileProfile)
