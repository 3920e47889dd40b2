"""The page Policy: how a company's routes are imported and its fuel is planned; and the cost of its last plans with
other values."""

from functools import cache
from itertools import groupby
from typing import NamedTuple
from zoneinfo import available_timezones

import msgspec
from starlette.responses import Response

from domain.accounts.companies import UnusablePolicy, read_company, set_policy
from domain.accounts.contacts import UnreadableContact
from domain.accounts.policy import PlanPolicy, Policy, StoredCompany
from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor, actions_on_subject
from domain.contract.captions import captioned_fields
from domain.contract.checking import Invalid, read_query
from domain.database.connections import Tenant
from domain.lifecycle import Environment
from domain.messages.due_messages import send_refused_messages
from domain.savings.policy_preview import Preview, preview_policy
from domain.wording import sentence
from ingress.console.addresses import action_at, in_report_threads, page_at
from ingress.console.record_kinds import as_text
from ingress.console.refusals import Refused
from ingress.console.signed_in import Page, see_other
from ingress.console.stale_forms import require_seen, state_of

_ON_PAGE = [field for field in captioned_fields(Policy) if not field.is_replaced]
FIELDS = [field for field in _ON_PAGE if not field.choices and field.kind != "secret"]
_CHOICES = {field.name: field.choices for field in _ON_PAGE if field.choices}
_SWITCHES = ("superseding", "driven_lanes", "replan_en_route", "watch_burn")
_LABELS = {field.name: field.label for field in _ON_PAGE}
GROUPS = {group: [field.name for field in fields] for group, fields in groupby(_ON_PAGE, lambda field: field.group)}
"""The fields of the form by their group."""
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
    """The stored values for the form, without the message address, which holds secrets."""
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
    previewed: "Previewed | None" = None,
) -> Response:
    may_edit = page.session.role in MAY_EDIT_POLICY
    return page.render(
        "policy.html",
        status=status,
        section="policy",
        groups=GROUPS,
        fields={field.name: field for field in FIELDS},
        choices=_CHOICES,
        labels=_LABELS,
        message_url=_MESSAGE_URL,
        typed=typed,
        seen=state_of(_stored(company)),
        has_message_url=company.message_url is not None,
        time_zones=_time_zones(),
        may_edit=may_edit,
        entries=actions_on_subject(page.connection, page.company_id, _SUBJECT, limit=_ENTRIES) if may_edit else [],
        fault=fault,
        faults=faults or {},
        previewed=previewed,
        done={"changed": "The policy is saved. New plans follow it.", "same": "Nothing was changed."}.get(
            page.form.text("done"), ""
        ),
    )


class _Typed(NamedTuple):
    """The sent form, and the changes that it asks for. Without faults the changes can be stored."""

    typed: dict[str, str]
    policy: Policy
    """The changed values only."""
    lifts_max_stops: bool
    faults: dict[str, str]

    @property
    def fault(self) -> str:
        return "; ".join(f"{_LABELS.get(name, name)}: {text}" for name, text in self.faults.items()) + "."


def _read_form(page: Page, company: StoredCompany) -> _Typed:
    """Read the values of the form. Raises Refused if somebody else has changed the policy since its page was loaded:
    the fields of that page have the values of before."""
    form, stored = page.form, _stored(company)
    require_seen(page, stored, "the policy")
    typed = {name: form.text(name, most=4_000) for name in stored}
    given = {name: value for name, value in typed.items() if value != stored[name]}
    lifts_max_stops = "max_stops" in given and not given["max_stops"]
    empty = {name: "It cannot be empty" for name, value in given.items() if not value and name != "max_stops"}
    if empty:
        return _Typed(typed, Policy(), lifts_max_stops, empty)
    switches = {name: given.pop(name) for name in _SWITCHES if name in given}
    unknown = {name: "Choose one of the two" for name, value in switches.items() if value not in _CHOICES[name]}
    if unknown:
        return _Typed(typed, Policy(), lifts_max_stops, unknown)
    try:
        policy = read_query({name: value for name, value in given.items() if value}, Policy)
    except Invalid as invalid:
        faults = {fault.field: fault.message for fault in invalid.faults}
        return _Typed(typed, Policy(), lifts_max_stops, faults)
    policy = msgspec.structs.replace(policy, **{name: value == "true" for name, value in switches.items()})
    return _Typed(typed, policy, lifts_max_stops, {})


def save(page: Page, by: Actor) -> Response:
    """Store the fields that were changed in the form, and no others."""
    form, company = page.form, read_company(page.connection, page.company_id)
    read = _read_form(page, company)
    if read.faults:
        return _policy(page, company, read.typed, fault=read.fault, faults=read.faults, status=400)
    policy, lifts_max_stops = read.policy, read.lifts_max_stops
    message_url = form.text("message_url", most=4_000)
    if message_url or form.text("message_url_removed") == "yes":
        policy = msgspec.structs.replace(policy, message_url=message_url)
    if policy == Policy() and not lifts_max_stops:
        return see_other("/policy?done=same")
    try:
        set_policy(
            page.connection,
            page.company_id,
            policy,
            by,
            lifts_max_stops=lifts_max_stops,
            contacts=page.console.contacts,
        )
        if policy.message_url is not None:
            send_refused_messages(page.connection, page.company_id, None)
    except UnreadableContact:
        pass  # the message address that is stored: it was not asked for
    except UnusablePolicy as error:
        return _policy(page, company, read.typed, fault=sentence(str(error)), status=400)
    return see_other("/policy?done=changed")


class Previewed(NamedTuple):
    """The last plans with the values in the form; empty if no value for plans was changed."""

    environment: Environment
    found: Preview | None


def preview(page: Page, _: Actor) -> Response:
    """Show the last plans with the values in the form, without storing them. Without scripts the whole page is shown
    again."""
    company = read_company(page.connection, page.company_id)
    read = _read_form(page, company)
    if read.faults:
        if page.is_fragment:
            raise Refused(400, "These values cannot be used", read.fault)
        return _policy(page, company, read.typed, fault=read.fault, faults=read.faults, status=400)
    before, after = (
        _plan_policy(company, Policy(), lifts_max_stops=False),
        _plan_policy(company, read.policy, lifts_max_stops=read.lifts_max_stops),
    )
    previewed = Previewed(Environment.LIVE, None)
    if before != after:
        for environment in Environment:
            found = preview_policy(page.connection, Tenant(page.company_id, environment), before, after)
            previewed = Previewed(environment, found)
            if found.found:
                break
    if page.is_fragment:
        return page.render("_policy_preview.html", previewed=previewed)
    return _policy(page, company, read.typed, previewed=previewed)


def _plan_policy(company: StoredCompany, changes: Policy, *, lifts_max_stops: bool) -> PlanPolicy:
    values = {name: getattr(company, name) for name in PlanPolicy._fields}
    values |= {name: changed for name in values if (changed := getattr(changes, name)) is not None}
    if lifts_max_stops:
        values["max_stops"] = None
    return PlanPolicy(**values)


ADDRESSES = [
    page_at("/policy", show),
    action_at("/policy", save, by=MAY_EDIT_POLICY),
    action_at("/policy/preview", preview, by=MAY_EDIT_POLICY, run=in_report_threads),
]
