"""Files of fuel cards: a person sends one, looks at its columns and first fills, and has them stored."""

from itertools import islice
from typing import Any

from msgspec.structs import asdict, replace
from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH
from domain.files.csvfiles import ImportReport, UnreadableFile
from domain.files.profiles import Column, FileProfile
from domain.files.reading import AUTO, read_sample
from domain.fills.card_files import FileFill, open_fill_file
from domain.fills.fields import FILL_FIELDS
from domain.fills.importing import states_by_stations
from domain.fills.profiles import CARDS, card_profile_of
from domain.lifecycle import Environment
from domain.operations.import_kinds import FillsFile
from ingress.console.addresses import page_at, upload_at
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.importer import MOST_COLUMNS_SHOWN, Upload, fault_of_file
from ingress.console.pages.imports import (
    begin_import,
    latest_files,
    require_no_import,
    show_file,
    unreadable,
    volume_and_currency,
)
from ingress.console.refusals import Refused
from ingress.console.signed_in import Page

_SHOWN_FILLS = 5
_LONGEST = 20_000
"""Most characters of the fields of all columns."""


def show(page: Page) -> Response:
    """Show the form, and the last files of the company."""
    return page.render(
        "fill_files.html",
        section="fills",
        cards={AUTO: "Recognized by its headings", **{name: card.title for name, card in CARDS.items()}},
        environments=list(Environment),
        latest=latest_files(page, FillsFile),
        most_megabytes=MAX_FILE_BYTES >> 20,
        most_bytes=MAX_FILE_BYTES,
    )


def take(page: Page, upload: Upload) -> Response:
    """Show the contents of an arrived file, or begin to store its fills. Raises Refused if it cannot be read."""
    wanted, unsure = _wanted(page, upload)
    if page.form.text("act") != "import":
        response = _preview(page, wanted, unsure)
        page.afterwards.append(upload.remove)
        return response
    if unsure:
        raise Refused(400, "This file is not recognized", unsure)
    try:
        with open_fill_file(wanted.path, wanted.profile, ImportReport(), now=page.now):
            pass  # its columns suffice
    except UnreadableFile as error:
        raise unreadable(error, wanted) from None
    return begin_import(page, upload, wanted, "/fill-files")


def _wanted(page: Page, upload: Upload) -> tuple[FillsFile, str]:
    """The profile and unit to read the file with, and the doubt about them."""
    form = page.form
    name = form.text("profile") or AUTO
    if name != AUTO and name not in CARDS:
        raise Refused(400, "Which card is it?", "Choose a card from the list.")
    profile, unsure = _recognized(upload, name)
    if "column" in form.values:
        profile, unsure = _with_columns(profile, upload, form.text("column", most=_LONGEST).split(",")), ""
    volume, currency = volume_and_currency(page)
    wanted = FillsFile(
        path=upload.path,
        company_id=page.company_id,
        environment=page.tenant.environment,
        profile=profile,
        volume=volume,
        currency=currency,
        far_miles=page.console.settings.fill_far_miles,
    )
    return wanted, unsure


def _recognized(upload: Upload, name: str) -> tuple[FileProfile, str]:
    """The profile of the chosen card, or of the file's headings; and the reason if they fit none. Then the columns
    count that a person chooses in the preview."""
    try:
        return card_profile_of(upload.path, name), ""
    except UnreadableFile as error:
        return CARDS["generic"].profile, fault_of_file(error, upload.path)


def _with_columns(profile: FileProfile, upload: Upload, fields: list[str]) -> FileProfile:
    """The profile with the columns that the person chose in the preview of this file; those of another file do not
    count."""
    try:
        names = read_sample(upload.path).heading.names[:MOST_COLUMNS_SHOWN]
    except UnreadableFile:
        return profile
    if len(names) != len(fields):
        return profile
    chosen = zip(fields, names, strict=True)
    columns = {
        field: replace(profile.columns.get(field, Column((name,))), names=(name,))
        for field, name in chosen
        if name and FILL_FIELDS.field(field) is not None
    }
    return replace(profile, columns=columns)


def _preview(page: Page, wanted: FillsFile, unsure: str) -> Response:
    """The part of the page with the file's columns and its first fills."""
    report, fills, fault = ImportReport(), list[FileFill](), unsure
    used: dict[str, str] = {}
    taken_for = ""
    try:
        names = read_sample(wanted.path).heading.names
    except UnreadableFile as error:
        raise unreadable(error, wanted) from None
    try:
        states = states_by_stations(page.connection, page.company_id)
        with open_fill_file(
            wanted.path,
            wanted.profile,
            report,
            now=page.now,
            volume=wanted.volume,
            currency=wanted.currency,
            state_of=states,
        ) as file:
            names = file.table.heading.names
            used = {column: field for field, column in file.table.fields.items()}
            fills = list(islice(file.fills, _SHOWN_FILLS))
    except UnreadableFile as error:
        fault = unsure or fault_of_file(error, wanted.path)
        used = _partly(names, wanted.profile)
    if not fault and page.form.text("profile") in ("", AUTO):
        taken_for = CARDS[wanted.profile.name].title
    return page.render(
        "_fill_file.html",
        columns=[(name, used.get(name, "")) for name in names[:MOST_COLUMNS_SHOWN]],
        fields=FILL_FIELDS.fields,
        fills=[_shown(fill) for fill in fills],
        refused=sorted(report.rejected)[:_SHOWN_FILLS],
        fault=fault,
        taken_for=taken_for,
    )


def _partly(names: list[str], profile: FileProfile) -> dict[str, str]:
    """The fields of a file that lacks some of them, by column."""
    return {name: field for field, column in profile.columns.items() for name in names if name in column.names}


def _shown(fill: FileFill) -> dict[str, Any]:
    place = ", ".join(filter(None, (fill.location_name, fill.city, fill.state)))
    return {**asdict(fill), "place": place, "paid": fill.paid_cents / 100}


def show_upload(page: Page) -> Response:
    return show_file(page, FillsFile, "fill_upload.html", "fills")


ADDRESSES = [
    page_at("/fill-files", show, by=MAY_DISPATCH),
    upload_at("/fill-files", take, by=MAY_DISPATCH, check=require_no_import),
    page_at("/fill-files/{id}", show_upload, by=MAY_DISPATCH),
]
