"""Files of routes: a person sends one, looks at its columns and first routes, and has the routes pushed."""

from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH
from domain.files.csvfiles import UnreadableFile
from domain.files.route_files import FileFormat, format_of, open_route_file, read_columns
from domain.files.route_layout import (
    ROUTE_FIELDS,
    SEQUENCE,
    START_OF_STOPS,
    STOP_FIELDS,
    TIME_ZONE,
    are_fields,
    fields_of,
)
from domain.files.route_rows import FileRoute
from domain.lifecycle import Environment
from domain.operations.import_kinds import RoutesFile
from domain.wording import sentence
from ingress.console.addresses import page_at, upload_at
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.importer import Upload, fault_of_file
from ingress.console.pages.imports import begin_import, latest_files, require_no_import, show_file, unreadable
from ingress.console.refusals import Refused
from ingress.console.signed_in import Page

_SHOWN_ROUTES = 5
_SHOWN_STOPS = 3
"""Stops whose fields are suggested; others can be typed."""
_SHOWN_CHARACTERS, _SHOWN_FAULT_CHARACTERS = 200, 2_000
_LONGEST = 20_000
"""Most characters of the fields of all columns."""


def show(page: Page) -> Response:
    """Show the form, and the last files of the company."""
    return page.render(
        "route_files.html",
        section="routes",
        environments=list(Environment),
        latest=latest_files(page, RoutesFile),
        most_megabytes=MAX_FILE_BYTES >> 20,
        most_bytes=MAX_FILE_BYTES,
    )


def take(page: Page, upload: Upload) -> Response:
    """Show the contents of an arrived file, or begin to push its routes. Raises Refused if it cannot be read."""
    wanted = _wanted(page, upload)
    if page.form.text("act") != "push":
        response = _preview(page, wanted)
        page.afterwards.append(upload.remove)
        return response
    try:
        columns = read_columns(wanted.path, wanted.format)
        with open_route_file(wanted.path, {}, wanted.zone, fields=wanted.fields, kind=wanted.format):
            pass  # its columns suffice
    except UnreadableFile as error:
        raise unreadable(error, wanted) from None
    if wanted.fields is not None and len(wanted.fields) != len(columns):
        raise Refused(409, "The fields are those of another file", "Look at the preview of this one first.")
    return begin_import(page, upload, wanted, "/route-files")


def _wanted(page: Page, upload: Upload) -> RoutesFile:
    form = page.form
    try:
        kind = format_of(form.text("filename", most=1_000))
    except UnreadableFile as error:
        raise Refused(400, "This file cannot be read", sentence(str(error))) from None
    typed = form.text("column", most=_LONGEST) if "column" in form.values else None
    fields = [one.strip() for one in typed.split(",")] if typed is not None and kind != "jsonl" else None
    return RoutesFile(
        path=upload.path,
        company_id=page.company_id,
        environment=page.tenant.environment,
        format=kind,
        fields=fields,
        zone=ZoneInfo(page.session.time_zone),
    )


def _preview(page: Page, wanted: RoutesFile) -> Response:
    """The part of the page with the file's columns and its first routes."""
    try:
        columns = read_columns(wanted.path, wanted.format)
    except UnreadableFile as error:
        raise unreadable(error, wanted) from None
    fields = wanted.fields if wanted.fields is not None and len(wanted.fields) == len(columns) else None
    routes: list[dict[str, Any]] = []
    fault, passed_over = "", list[int]()
    try:
        with open_route_file(wanted.path, {}, wanted.zone, fields=fields, kind=wanted.format) as file:
            routes = [_shown(one) for one in islice(file.routes, _SHOWN_ROUTES)]
            passed_over = file.passed_over[:_SHOWN_ROUTES]
    except UnreadableFile as error:
        fault = fault_of_file(error, wanted.path)
    chosen = list(fields) if fields is not None else fields_of(columns)
    return page.render(
        "_route_file.html",
        columns=list(zip(columns, chosen, [not field or are_fields(field) for field in chosen], strict=True)),
        fields=_suggested(wanted.format),
        routes=routes,
        fault=fault,
        passed_over=passed_over,
        zone=wanted.zone.key,
    )


def _suggested(kind: FileFormat) -> list[str]:
    if kind == "jsonl":
        return []
    stops = [f"stop{number}_{name}" for number in ("", *range(1, _SHOWN_STOPS + 1)) for name in STOP_FIELDS]
    return [*ROUTE_FIELDS, START_OF_STOPS, TIME_ZONE, f"stop_{SEQUENCE}", *stops]


def _shown(one: FileRoute) -> dict[str, Any]:
    stops = one.route.stops if one.route is not None else []
    return {
        "line": one.line,
        "external_id": one.external_id[:_SHOWN_CHARACTERS],
        "start": one.route.scheduled_start if one.route is not None else None,
        "stops": [stop.name for stop in stops],
        "fault": one.fault[:_SHOWN_FAULT_CHARACTERS],
    }


def show_upload(page: Page) -> Response:
    return show_file(page, RoutesFile, "route_upload.html", "routes")


ADDRESSES = [
    page_at("/route-files", show, by=MAY_DISPATCH),
    upload_at("/route-files", take, by=MAY_DISPATCH, check=require_no_import),
    page_at("/route-files/{id}", show_upload, by=MAY_DISPATCH),
]
