"""The page Policy: how a company's routes are imported and its fuel is planned."""

from functools import cache
from zoneinfo import available_timezones

import msgspec
from starlette.responses import Response

from domain.accounts.companies import Company, Policy, UnusablePolicy, read_company, set_policy
from domain.accounts.contacts import UnreadableContact
from domain.accounts.users import MAY_EDIT_POLICY
from domain.contract.checking import Invalid, read_query
from domain.lifecycle import MapLink, Objective
from domain.operations import audit
from domain.operations.audit import Actor
from domain.wording import sentence
from ingress.console.addresses import action_at, page_at
from ingress.console.pages.fleet_and_stations import plain_words
from ingress.console.signed_in import Page, see_other
from ingress.console.subjects import Field, as_text

FIELDS = (
    Field("name", "Name of the company"),
    Field("time_zone", "Time zone", "of times in messages, and when a day begins, such as America/Chicago"),
    Field("import_window_days", "Import window, days", "routes that start more days ahead are held", "number"),
    Field("reserve_percent", "Reserve, percent", "the tank never falls below it", "number"),
    Field("end_fuel_percent", "Fuel at the destination, percent", "", "number"),
    Field("assumed_fuel_percent", "Assumed fuel, percent", "of a truck that has sent none for 24 hours", "number"),
    Field("fuel_margin_percent", "Margin, percent", "beyond the reserve until the first purchase", "number"),
    Field("min_purchase_gallons", "Smallest purchase, gallons", "", "number"),
    Field("stop_cost", "Cost of a stop, dollars", "", "number"),
    Field("max_detour_miles", "Longest detour, miles", "to a truck stop, each way", "number"),
    Field("max_stops", "Most fuel stops of a plan", "empty for no limit", "number"),
    Field("leftover_value_per_gallon", "Value of leftover fuel, dollars a gallon", "", "number"),
)
_CHOICES: dict[str, dict[str, str]] = {
    "superseding": {
        "false": "keep both routes",
        "true": "the newer route replaces the one before",
    },
    "objective": {
        Objective.PUMP: "prices at the pump",
        Objective.TAX_ADJUSTED: "prices less the fuel tax",
    },
    "map_link": {
        MapLink.GOOGLE: "a link that any phone opens",
        MapLink.GEO: "the phone's own map",
    },
}
_LABELS = {
    "superseding": "A newer load with the same reference",
    "objective": "Plans compare",
    "map_link": "Maps in messages",
    "message_url": "Message address",
}
_SUBJECT = "policy"
_ENTRIES = 10


@cache
def _time_zones() -> list[str]:
    return sorted(available_timezones())


def show(page: Page) -> Response:
    company = read_company(page.connection, page.company_id)
    return _policy(page, company, _stored(company))


def _stored(company: Company) -> dict[str, str]:
    """The stored values that the form shows; never the message address, which holds secrets."""
    values = company._asdict()
    shown = {field.name: as_text(values[field.name]) for field in FIELDS}
    return shown | {name: str(values[name]).lower() for name in _CHOICES}


def _policy(
    page: Page,
    company: Company,
    typed: dict[str, str],
    *,
    fault: str = "",
    faults: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    may_edit = page.session.role in MAY_EDIT_POLICY
    return page.render(
        "policy.html",
        status=status,
        section="policy",
        fields=FIELDS,
        choices=_CHOICES,
        labels=_LABELS,
        typed=typed,
        has_message_url=company.message_url is not None,
        time_zones=_time_zones(),
        may_edit=may_edit,
        entries=audit.actions_on_subject(page.connection, page.company_id, _SUBJECT, limit=_ENTRIES)
        if may_edit
        else [],
        fault=fault,
        faults=faults or {},
        done={"changed": "The policy is stored. Plans from now on follow it.", "same": "Nothing was changed."}.get(
            page.form.text("done"), ""
        ),
    )


def save(page: Page) -> Response:
    """Store the fields that were changed in the form, and no others."""
    form, company = page.form, read_company(page.connection, page.company_id)
    stored = _stored(company)
    typed = {name: form.text(name, most=4_000) for name in stored}
    given = {name: value for name, value in typed.items() if value != stored[name]}
    message_url = form.text("message_url", most=4_000)
    labels = {field.name: field.label for field in FIELDS} | _LABELS
    empty = {name: "It cannot be empty" for name, value in given.items() if not value and name != "max_stops"}
    lifts_max_stops = "max_stops" in given and not given["max_stops"]

    def refuse(faults: dict[str, str], fault: str = "") -> Response:
        said = "; ".join(f"{labels.get(name, name)}: {text}" for name, text in faults.items())
        return _policy(page, company, typed, fault=fault or f"{said}.", faults=faults, status=400)

    if empty:
        return refuse(empty)
    superseding = given.pop("superseding", None)
    if superseding not in (None, *_CHOICES["superseding"]):
        return refuse({"superseding": "Choose one of the two"})
    try:
        policy = read_query({name: value for name, value in given.items() if value}, Policy)
    except Invalid as invalid:
        return refuse({fault.field: plain_words(fault.message) for fault in invalid.faults})
    if superseding is not None:
        policy = msgspec.structs.replace(policy, superseding=superseding == "true")
    if message_url or form.text("message_url_removed") == "yes":
        policy = msgspec.structs.replace(policy, message_url=message_url)
    changed = [labels[name] for name in policy.__struct_fields__ if getattr(policy, name) is not None]
    changed += [labels["max_stops"]] if lifts_max_stops else []
    if not changed:
        return see_other("/policy?done=same")
    try:
        set_policy(
            page.connection,
            page.company_id,
            policy,
            lifts_max_stops=lifts_max_stops,
            contacts=page.console.contacts,
        )
    except UnreadableContact:
        pass  # the message address that is stored: it was not asked for
    except UnusablePolicy as error:
        return refuse({}, sentence(str(error)))
    by = Actor(page.session.email, ", ".join(changed))
    audit.record_action(page.connection, by, "change", _SUBJECT, company_id=page.company_id, now=page.now)
    return see_other("/policy?done=changed")


ADDRESSES = [page_at("/policy", show), action_at("/policy", save, by=MAY_EDIT_POLICY, audited_as=None)]
