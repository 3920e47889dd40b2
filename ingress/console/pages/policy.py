"""The page Policy: how a company's routes are imported and its fuel is planned."""

from functools import cache
from zoneinfo import available_timezones

import msgspec
from starlette.responses import Response

from domain.accounts.companies import Policy, StoredCompany, UnusablePolicy, read_company, set_policy
from domain.accounts.contacts import UnreadableContact
from domain.accounts.users import MAY_EDIT_POLICY
from domain.contract.captions import captioned_fields
from domain.contract.checking import Invalid, read_query
from domain.operations import audit
from domain.operations.audit import Actor
from domain.wording import sentence
from ingress.console.addresses import action_at, page_at
from ingress.console.pages.fleet_and_stations import plain_words
from ingress.console.signed_in import Page, see_other
from ingress.console.subjects import as_text

_ON_PAGE = [field for field in captioned_fields(Policy) if field.name != "replan_en_route"]
"""`replan_en_route` is set by the command line only."""
FIELDS = [field for field in _ON_PAGE if not field.choices and field.kind != "secret"]
_CHOICES = {field.name: field.choices for field in _ON_PAGE if field.choices}
_LABELS = {field.name: field.label for field in _ON_PAGE}
(_MESSAGE_URL,) = captioned_fields(Policy, "message_url")
_SUBJECT = "policy"
_ENTRIES = 10


@cache
def _time_zones() -> list[str]:
    return sorted(available_timezones())


def show(page: Page) -> Response:
    company = read_company(page.connection, page.company_id)
    return _policy(page, company, _stored(company))


def _stored(company: StoredCompany) -> dict[str, str]:
    """The stored values that the form shows; never the message address, which holds secrets."""
    values = company._asdict()
    shown = {field.name: as_text(values[field.name]) for field in FIELDS}
    return shown | {name: str(values[name]).lower() for name in _CHOICES}


def _policy(
    page: Page,
    company: StoredCompany,
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
        message_url=_MESSAGE_URL,
        typed=typed,
        has_message_url=company.message_url is not None,
        time_zones=_time_zones(),
        may_edit=may_edit,
        entries=audit.actions_on_subject(page.connection, page.company_id, _SUBJECT, limit=_ENTRIES)
        if may_edit
        else [],
        fault=fault,
        faults=faults or {},
        done={"changed": "The policy is saved. New plans follow it.", "same": "Nothing was changed."}.get(
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
    empty = {name: "It cannot be empty" for name, value in given.items() if not value and name != "max_stops"}
    lifts_max_stops = "max_stops" in given and not given["max_stops"]

    def refuse(faults: dict[str, str], fault: str = "") -> Response:
        said = "; ".join(f"{_LABELS.get(name, name)}: {text}" for name, text in faults.items())
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
    changed = [_LABELS[name] for name in policy.__struct_fields__ if getattr(policy, name) is not None]
    changed += [_LABELS["max_stops"]] if lifts_max_stops else []
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
