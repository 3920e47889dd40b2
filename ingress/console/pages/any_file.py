"""The page on which any file is dropped: it tells its kind, shows its first rows, asks, and begins its import."""

from typing import NamedTuple

from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH, MAY_EDIT_POLICY
from domain.files.csvfiles import UnreadableFile
from domain.files.kept_profiles import kept_profiles
from domain.files.profiles import FileProfile
from domain.files.reading import AUTO
from domain.files.route_layout import field_in_words
from domain.fills.profiles import CARDS
from domain.lifecycle import Environment, Role
from domain.operations import import_records
from domain.operations.file_kinds import FILE_KINDS, FileKind
from domain.operations.file_looks import (
    FileAnswer,
    FileLook,
    Import,
    NotDecided,
    file_to_import,
    look_at_file,
    remember,
    require_decided,
)
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS, UnknownProfile
from domain.wording import sentence
from ingress.console.addresses import page_at, upload_at
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.importer import Upload, fault_of_file
from ingress.console.pages.imports import begin_import, read_import, show_import, volume_and_currency
from ingress.console.refusals import Refused
from ingress.console.signed_in import Page

_MOST_COLUMNS_SHOWN = 10
_MAP = "map-"
"""The beginning of a form's field for the column of a field of routes."""
_FOLDERS = {"fills": "/fill-files", "routes": "/route-files"}
"""The pages that follow an import; those of the other kinds stand below `/KIND/imports`."""


class _Named(NamedTuple):
    """The name under which a page of imports shows its kind."""

    name: str


def show(page: Page) -> Response:
    return page.render(
        "any_file.html",
        section="import",
        kinds=_kinds_of(page),
        most_megabytes=MAX_FILE_BYTES >> 20,
        most_bytes=MAX_FILE_BYTES,
    )


def _kinds_of(page: Page) -> list[FileKind]:
    """The kinds of files that the person may import."""
    return [kind for kind in FILE_KINDS.values() if page.session.role in kind.may_import]


def take(page: Page, upload: Upload) -> Response:
    """Show what an arrived file is, or begin its import. Raises Refused if it cannot be read or is not decided."""
    wanted, told = _wanted(page, upload), _told(page)
    try:
        look = look_at_file(page.connection, wanted, told, now=page.now)
        if page.form.text("act") != "import":
            page.afterwards.append(upload.remove)
            return _show_look(page, look)
        answer = require_decided(look, is_told=told is not None)
        _require_may_import(page, answer.kind)
        file = file_to_import(page.connection, wanted, answer)
    except UnreadableFile as error:
        raise Refused(400, "This file cannot be read", fault_of_file(error, upload.path)) from None
    except (NotDecided, UnknownProfile) as error:
        raise Refused(409, "What is this file?", sentence(str(error))) from None
    remember(page.connection, wanted, look.layout, answer, now=page.now)
    return begin_import(page, upload, file, _FOLDERS.get(answer.kind, f"/{answer.kind}/imports"))


def _wanted(page: Page, upload: Upload) -> Import:
    form = page.form
    return Import(
        path=upload.path,
        file_name=form.text("filename", most=400),
        sender=page.session.email,
        settings=page.console.settings,
        company_id=page.chosen_company_id,
        environment=Environment.SANDBOX if form.text("environment") == Environment.SANDBOX else Environment.LIVE,
        takes_retail=page.session.role is Role.OPERATOR,
        contacts=page.console.contacts,
    )


def _told(page: Page) -> FileAnswer | None:
    """The decisions in the form. Raises Refused for a kind that does not exist or that the person may not import."""
    form = page.form
    mapping = {
        name.removeprefix(_MAP): column for name in form.values if name.startswith(_MAP) and (column := form.text(name))
    }
    kind = "routes" if mapping else form.text("kind")
    if not kind:
        return None
    if kind not in FILE_KINDS:
        raise Refused(400, "What is this file?", "Choose a kind from the list.")
    _require_may_import(page, kind)
    profile = form.text("profile") if kind in ("prices", "fills") else ""
    if kind == "fills" and profile and profile != AUTO and profile not in CARDS:
        profile = ""  # that of another kind, which was chosen before
    volume, currency = volume_and_currency(page) if kind == "fills" else ("", "")
    return FileAnswer(kind, profile or AUTO, volume, currency, mapping=mapping)


def _require_may_import(page: Page, kind: str) -> None:
    if page.session.role not in FILE_KINDS[kind].may_import:
        who = "an operator" if FILE_KINDS[kind].may_import == {Role.OPERATOR} else "an owner of your company"
        raise Refused(403, "This is not for your role", f"A file of {FILE_KINDS[kind].title} is imported by {who}.")


def _show_look(page: Page, look: FileLook) -> Response:
    kind = look.answer.kind if look.answer is not None else ""
    columns = list(dict.fromkeys(name for row in look.rows for name in row))[:_MOST_COLUMNS_SHOWN]
    return page.render(
        "_any_file.html",
        look=look,
        kind=kind,
        may_import=not kind or page.session.role in FILE_KINDS[kind].may_import,
        kinds=_kinds_of(page),
        columns=columns,
        profiles=_profiles(page, kind),
        unclear=[sentence(doubt) for doubt in look.unclear],
        field_in_words=field_in_words,
        refused=[(row.line, row.message) for row in look.refused],
        environments=list(Environment) if kind and FILE_KINDS[kind].has_environments else [],
    )


def _profiles(page: Page, kind: str) -> dict[str, str]:
    """The profiles to choose from, each with its title."""
    if kind == "fills":
        return {name: card.title for name, card in CARDS.items()}
    if kind != "prices" or page.chosen_company_id is None:
        return {}
    kept: list[FileProfile] = kept_profiles(page.connection, page.chosen_company_id, PRICE_FIELDS.subject)
    return {name: name for name in (*(one.name for one in kept), *BUILT_IN)}


def _may_send(page: Page) -> None:
    """Check that no other file of the company is being imported, before one is read. Raises ImportRunning."""
    import_records.require_none(page.connection, page.chosen_company_id, now=page.now)


def show_prices(page: Page) -> Response:
    """Show the progress and the result of a file of prices, or the part of that page that refreshes itself."""
    stored = read_import(page, page.company_id, ["prices"])
    return show_import(page, stored, "import.html", section="prices", kind=_Named("prices"))


ADDRESSES = [
    page_at("/import", show, by=MAY_DISPATCH),
    upload_at("/import", take, by=MAY_DISPATCH, check=_may_send),
    page_at("/prices/imports/{id}", show_prices, by=MAY_EDIT_POLICY),
]
