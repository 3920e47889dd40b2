"""The page Spelling rules: a person looks at the letters that the TMS writes around unit numbers, accepts them as a
rule, and removes rules."""

from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from domain.accounts.users import MAY_MATCH
from domain.audit.entries import Actor
from domain.fleet.api_lists import FleetRecord, list_records
from domain.fleet.spelling_rules import (
    LONGEST_RULE,
    SpellingRule,
    UnusableRule,
    checked_rule,
    list_spelling_rules,
    remove_spelling_rule,
    units_meant,
)
from domain.routes.intake.fleet_changes import add_spelling_rule
from domain.routes.intake.waiting_references import WaitingReference, waiting_references
from domain.wording import sentence
from ingress.console.addresses import action_at, page_at
from ingress.console.refusals import not_found
from ingress.console.signed_in import Page, see_other

_PATH = "/mappings/vehicles/rules"
_MOST_SHOWN = 200
_DONE = {
    "added": "The rule is stored. The routes that waited for it are being imported.",
    "removed": "The rule is removed. Routes that are imported already keep their vehicle.",
}


class _Preview(NamedTuple):
    """The meanings that a rule would give to the unit numbers of held routes."""

    one: list[tuple[WaitingReference, FleetRecord]]
    several: list[WaitingReference]
    none: list[WaitingReference]
    """Unit numbers with this spelling for which the fleet has no vehicle."""

    @property
    def routes(self) -> int:
        return sum(reference.routes for reference, _ in self.one)


def _preview(
    rule: SpellingRule,
    stored: Sequence[SpellingRule],
    waiting: Sequence[WaitingReference],
    records: Sequence[FleetRecord],
) -> _Preview:
    by_unit = {record.name: record for record in records if record.name is not None}
    found = _Preview([], [], [])
    for reference in waiting:
        if reference.kind != "unit_number" or rule.unit_in(reference.value) is None:
            continue
        if reference.value in by_unit or (reference.fits and rule[:2] not in {one[:2] for one in stored}):
            continue  # something else explains it
        fits = [by_unit[unit] for unit in units_meant([*stored, rule], reference.value) if unit in by_unit]
        if len(fits) == 1:
            found.one.append((reference, fits[0]))
        else:
            (found.several if fits else found.none).append(reference)
    return found


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    read = page.form.packed if page.request.method == "POST" else page.form.secret
    before, after = read("before"), read("after")
    stored = list_spelling_rules(page.connection, page.company_id)
    preview = None
    if (before or after) and not fault:
        try:
            rule = checked_rule(before, after)
        except UnusableRule as error:
            fault, status = sentence(str(error)), 400
        else:
            records = list_records(page.connection, page.company_id, "vehicle")
            waiting = waiting_references(page.connection, page.company_id, "vehicle", records)
            preview = _preview(rule, stored, waiting, records)
    return page.render(
        "spelling_rules.html",
        status=status,
        section="mappings",
        rules=stored,
        before=before[: 2 * LONGEST_RULE],
        after=after[: 2 * LONGEST_RULE],
        longest=LONGEST_RULE,
        is_stored=(before, after) in {one[:2] for one in stored},
        preview=preview,
        most_shown=_MOST_SHOWN,
        fault=fault,
        done=_DONE.get(page.form.text("done"), ""),
    )


def add(page: Page, by: Actor) -> Response:
    rule = checked_rule(page.form.packed("before"), page.form.packed("after"))
    add_spelling_rule(page.connection, page.company_id, rule, by)
    return see_other(f"{_PATH}?done=added")


def remove(page: Page, by: Actor) -> Response:
    rule = SpellingRule(page.form.packed("before"), page.form.packed("after"))
    if not remove_spelling_rule(page.connection, page.company_id, rule, by):
        raise not_found()
    return see_other(f"{_PATH}?done=removed")


ADDRESSES = [
    page_at(_PATH, show),
    action_at(_PATH, add, by=MAY_MATCH, again=show, faults={UnusableRule: 400}),
    action_at(f"{_PATH}/remove", remove, by=MAY_MATCH),
]
