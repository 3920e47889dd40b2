"""The page Prices: price files with a preview and a mapping of their columns, held prices, sources, and past files."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor
from domain.files.csvfiles import ImportReport, UnreadableFile
from domain.files.kept_profiles import TooManyProfiles, keep_profile, kept_profiles
from domain.files.profiles import Column, FileProfile, guessed_columns
from domain.files.reading import AUTO, open_profiled, read_sample
from domain.ids import read_id, shown_id
from domain.lifecycle import Role
from domain.operations.import_kinds import PricesFile
from domain.operations.import_runs import ImportRun
from domain.stations import held_prices, price_sources
from domain.stations.held_prices import NeedsOperator, NeedsRate, NeedsStation
from domain.stations.places import UnknownStation
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_polling import price_profile_of
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS, UnknownProfile, with_usual_columns
from domain.stations.price_rows import PriceLook
from domain.stations.price_runs import latest_runs, refused_rows
from domain.stations.price_sources import PriceSource
from domain.stations.price_units import ExchangeRates
from domain.wording import sentence
from ingress.console.addresses import LOOK_SECONDS, action_at, as_download, page_at, upload_at
from ingress.console.browser import Form
from ingress.console.downloads import csv_download
from ingress.console.importer import MOST_COLUMNS_SHOWN, Upload, fault_of_file
from ingress.console.refusals import Refused, known
from ingress.console.signed_in import Page, named_in_address, see_other

MOST_FILE_BYTES_SENT = 5 << 20
"""Largest file that is imported while the browser waits. Larger ones are for the command."""
_SHOWN_RECORDS = 5
_SHOWN_HELD = 200
_LONGEST = 20_000

_DONE = {
    "accepted": "The price is used.",
    "refused": "The price is not used, not even when its file comes again.",
    "paused": "The source is paused.",
    "resumed": "The source is looked at again.",
}


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    sources = price_sources.SOURCES.all(page.connection, page.company_id)
    run_id = read_id("imp", page.form.text("run"))
    runs = latest_runs(page.connection, page.company_id)
    return page.render(
        "prices.html",
        status=status,
        section="prices",
        profiles=[
            *(one.name for one in kept_profiles(page.connection, page.company_id, PRICE_FIELDS.subject)),
            *BUILT_IN,
        ],
        held=held_prices.held_prices(page.connection, page.company_id, limit=_SHOWN_HELD),
        held_count=held_prices.count_held(page.connection, page.company_id),
        may_change_retail=_is_operator(page),
        sources=[(one, one.place, one.late_since(page.now)) for one in sources],
        runs=runs,
        new=next((one for one in runs if one.id == run_id), None),
        most_megabytes=MOST_FILE_BYTES_SENT >> 20,
        most_bytes=MOST_FILE_BYTES_SENT,
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
    )


def _is_operator(page: Page) -> bool:
    return page.session.role is Role.OPERATOR


# --- Files -------------------------------------------------------------------------------------------------------


_IMPORT_SECONDS = 30.0
"""Time to read a file for its import, which holds one of the few threads for reports. A busy machine takes 7 s for the
largest file, and reads it twice where somebody else changes prices meanwhile."""


def _seconds(form: Form) -> float:
    return _IMPORT_SECONDS if form.text("act") == "import" else LOOK_SECONDS


def take(page: Page, upload: Upload) -> Response:
    """Show the contents of an arrived file, or import it. Raises Refused if it cannot be read."""
    if upload.path.stat().st_size > MOST_FILE_BYTES_SENT:
        raise Refused(413, "This file is too large", "Import it with the command: fuelroute prices import.")
    page.afterwards.append(upload.remove)
    with _faults_refused(upload):
        if page.form.text("act") == "import":
            return _import(page, upload, _profile(page, upload))
        try:
            return _preview(page, upload, _profile(page, upload))
        except UnreadableFile as error:
            if page.form.text("profile") not in ("", AUTO) or "field" in page.form.values:
                raise
            return _preview(page, upload, BUILT_IN["generic"], unsure=fault_of_file(error, upload.path))


@contextmanager
def _faults_refused(upload: Upload) -> Iterator[None]:
    try:
        yield
    except UnreadableFile as error:
        raise Refused(400, "This file cannot be imported", fault_of_file(error, upload.path)) from None
    except (UnknownProfile, TooManyProfiles) as error:
        raise Refused(400, "This does not work", sentence(str(error))) from None


def _profile(page: Page, upload: Upload) -> FileProfile:
    """The chosen profile, or the one by the mapping in the form. Raises UnreadableFile or UnknownProfile if there is
    none that fits."""
    form = page.form
    base = _base_profile(page, upload)
    if "field" not in form.values:
        return base
    names = read_sample(upload.path).heading.names[:MOST_COLUMNS_SHOWN]
    fields = [field.strip() for field in form.text("field", most=_LONGEST).split(",")]
    if len(fields) != len(names):
        raise UnreadableFile("the fields are those of another file: look at the preview of this one first")
    unit = "cents" if form.text("unit") == "cents" else "dollars"
    known = {field.name: field for field in PRICE_FIELDS.fields}
    columns: dict[str, Column] = {}
    for name, field in zip(names, fields, strict=True):
        if not field:
            continue
        if field not in known:
            raise UnreadableFile(f"there is no field {field!r}")
        if field in columns:
            raise UnreadableFile(f"two columns are the field {known[field].label!r}: choose one")
        if name:
            is_money = known[field].kind == "amount"
            columns[field] = Column((name,), unit=unit if is_money else "dollars")  # type: ignore[arg-type]
    kept_as = form.text("keep").strip()[:200]
    brand = form.text("brand").strip()[:100]
    constants = {"brand": brand} if brand and "brand" not in columns else base.constants
    return FileProfile(kept_as or base.name, "prices", columns, constants, code_set=base.code_set)


def _base_profile(page: Page, upload: Upload) -> FileProfile:
    """The chosen profile, or the one that fits the headings. If none does, the columns count that a person has chosen
    in the preview. Raises UnreadableFile or UnknownProfile if there are none."""
    try:
        return price_profile_of(page.connection, page.company_id, page.form.text("profile") or AUTO, upload.path)
    except UnreadableFile:
        if "field" not in page.form.values:
            raise
        return BUILT_IN["generic"]


def _preview(page: Page, upload: Upload, profile: FileProfile, *, unsure: str = "") -> Response:
    """The part of the page with the file's columns and first rows. `unsure` is why it was not recognized."""
    sample = read_sample(upload.path)
    report, records, used, fault = ImportReport(), list[Any](), dict[str, str](), unsure
    look = PriceLook(page.connection, page.company_id, profile, ExchangeRates.of(page.console.settings))
    try:
        read_by = with_usual_columns(profile)
        with open_profiled(upload.path, read_by, PRICE_FIELDS, ZoneInfo(page.session.time_zone), report) as file:
            used = file.fields
            for one in islice(file.records, _SHOWN_RECORDS):
                try:
                    foreign = look.foreign_prices(one.values, used)
                except ValueError as error:
                    report.reject(one.line, str(error))
                else:
                    values = {field.name: one.values.get(field.name) for field in PRICE_FIELDS.fields}
                    records.append((one.line, values, foreign))
    except UnreadableFile as error:
        fault = unsure or fault_of_file(error, upload.path)
        used = guessed_columns(sample.heading.names, PRICE_FIELDS)
    field_of = {column: field for field, column in used.items()}
    return page.render(
        "_price_file.html",
        columns=[(name, field_of.get(name, "")) for name in sample.heading.names[:MOST_COLUMNS_SHOWN]],
        fields=[field for field in PRICE_FIELDS.fields if field.name != "brand" or not profile.constants],
        records=records,
        rejected=report.rejected[:_SHOWN_RECORDS],
        fault=fault,
        taken_for=profile.name if not fault and page.form.text("profile") in ("", AUTO) else "",
        zone=page.session.time_zone,
        cents=any(column.unit == "cents" for column in profile.columns.values()),
    )


def _import(page: Page, upload: Upload, profile: FileProfile) -> Response:
    """Import the file, and keep its profile under a new name if one is given."""
    if page.form.text("keep").strip() and "field" in page.form.values:
        if profile.name in BUILT_IN:
            raise UnreadableFile(f"{profile.name!r} is the name of a profile that is built in: choose another name")
        keep_profile(page.connection, page.company_id, profile, now=page.now)
    file = PricesFile(
        path=upload.path,
        company_id=page.company_id,
        profile=profile,
        takes_retail=_is_operator(page),
        limits=OutlierLimits.of(page.console.settings),
        file_name=page.form.text("filename", most=400),
        sender=page.session.email,
    )
    ImportRun(file, lambda: nullcontext(page.connection), page.session.email, time=lambda: page.now).store()
    return see_other(f"/prices?run={shown_id('imp', file.run_id)}")


def refused_csv(page: Page) -> Response:
    """The refused rows of a file."""
    rows = known(refused_rows(page.connection, page.company_id, page.id_in_address("imp")))
    return csv_download("fuelroute-refused-prices.csv", ["line", "message"], rows)


# --- Held prices -------------------------------------------------------------------------------------------------


def accept(page: Page, by: Actor) -> Response:
    held_prices.accept_price(
        page.connection,
        page.company_id,
        page.id_in_address("hld"),
        by,
        station_id=page.form.text("station").strip(),
        may_change_retail=_is_operator(page),
        now=page.now,
        rates=ExchangeRates.of(page.console.settings),
    )
    return see_other("/prices?done=accepted")


def refuse(page: Page, by: Actor) -> Response:
    held_prices.refuse_price(page.connection, page.company_id, page.id_in_address("hld"), by, now=page.now)
    return see_other("/prices?done=refused")


# --- Sources -----------------------------------------------------------------------------------------------------


def pause(page: Page, by: Actor) -> Response:
    price_sources.pause_source(page.connection, _source(page), by, now=page.now)
    return see_other("/prices?done=paused")


def resume(page: Page, by: Actor) -> Response:
    price_sources.resume_source(page.connection, _source(page), by)
    return see_other("/prices?done=resumed")


def _source(page: Page) -> PriceSource:
    return named_in_address(page, price_sources.SOURCES)


def _may_send(page: Page) -> None:
    """Check who sends a file. Everybody who sees the page may; an operator chooses a company first."""
    _ = page.company_id


_NEEDS = dict.fromkeys((NeedsStation, NeedsOperator, NeedsRate, UnknownStation), 400)
ADDRESSES = [
    page_at("/prices", show, by=MAY_EDIT_POLICY),
    upload_at("/prices", take, by=MAY_EDIT_POLICY, check=_may_send, seconds=_seconds),
    page_at("/price-runs/{id}.csv", refused_csv, by=MAY_EDIT_POLICY, run=as_download),
    action_at("/prices/{id}/accept", accept, by=MAY_EDIT_POLICY, again=show, faults=_NEEDS),
    action_at("/prices/{id}/refuse", refuse, by=MAY_EDIT_POLICY),
    action_at("/price-sources/{id}/pause", pause, by=MAY_EDIT_POLICY),
    action_at("/price-sources/{id}/resume", resume, by=MAY_EDIT_POLICY),
]
