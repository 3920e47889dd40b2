"""Spelling rules: the letters that a company's TMS writes around its unit numbers, such as `TRK` before each. A person
has accepted each rule.

A rule applies to pushed unit numbers that neither a mapping nor a stored unit number explains. The function
`units_by_rule` of the database applies them while routes are imported; `units_meant` is its twin in Python."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.audit.entries import Action, Actor, record_action
from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError
from domain.text import printable

MOST_RULES = 10
"""Most rules of a company: a unit number that nothing else explains is compared with each."""

LONGEST_RULE = 50
"""Most letters on each side."""


class UnusableRule(FuelrouteError):
    """A rule cannot be stored; the text says why."""


class SpellingRule(NamedTuple):
    """A pushed unit number with these letters before and after it means the unit between them."""

    before: str
    after: str
    created_at: datetime | None = None
    """When it was stored; None before."""

    def spells(self, unit: str) -> str:
        return f"{self.before}{unit}{self.after}"

    def in_words(self) -> str:
        return printable(f"“{self.spells('…')}”")

    def unit_in(self, value: str) -> str | None:
        """The unit number in a value; None if the value is not spelled by this rule."""
        unit = value[len(self.before) : len(value) - len(self.after)]
        return unit if unit and value == self.spells(unit) else None


def units_meant(rules: Iterable[SpellingRule], value: str) -> Iterator[str]:
    """The unit numbers that a value can mean by the rules, without duplicates."""
    yield from dict.fromkeys(unit for rule in rules if (unit := rule.unit_in(value)) is not None)


_LIST = Statement(
    SpellingRule,
    "SELECT written_before AS before, written_after AS after, created_at FROM spelling_rules WHERE company_id = %s"
    " ORDER BY created_at, written_before, written_after",
)
_INSERT = Command(
    "INSERT INTO spelling_rules (company_id, written_before, written_after) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
)
_REMOVE = Command("DELETE FROM spelling_rules WHERE company_id = %s AND written_before = %s AND written_after = %s")


def list_spelling_rules(connection: Connection, company_id: UUID) -> list[SpellingRule]:
    """The company's rules, oldest first."""
    return _LIST.all(connection, (company_id,))


def checked_rule(before: str, after: str) -> SpellingRule:
    """The rule of these letters. Raises UnusableRule, with the reason, if they make none."""
    if not before + after:
        raise UnusableRule("say what your TMS writes before or after the unit numbers")
    if max(len(before), len(after)) > LONGEST_RULE:
        raise UnusableRule(f"each side of a rule has at most {LONGEST_RULE} characters")
    if not (before + after).isprintable():
        raise UnusableRule("a rule is made of letters, digits, signs and spaces")
    return SpellingRule(before, after)


def store_spelling_rule(connection: Connection, company_id: UUID, rule: SpellingRule) -> None:
    """Stores a rule, unless it is stored already. `routes.intake.fleet_changes` calls it, and finds the routes that
    waited for it. Raises UnusableRule if the company has too many, UnknownCompany, RetiredCompany."""
    lock_company(connection, company_id)
    stored = {one[:2] for one in list_spelling_rules(connection, company_id)}
    if rule[:2] not in stored and len(stored) >= MOST_RULES:
        raise UnusableRule(f"the company has {MOST_RULES} rules: remove one first")
    _INSERT.execute(connection, (company_id, rule.before, rule.after))


def remove_spelling_rule(connection: Connection, company_id: UUID, rule: SpellingRule, by: Actor) -> bool:
    """Removes a rule. Routes that were matched through it stay as they are. Returns False if there is no such rule.
    Raises UnknownCompany, RetiredCompany."""
    lock_company(connection, company_id)
    if _REMOVE.execute(connection, (company_id, rule.before, rule.after)).rowcount == 0:
        return False
    record_action(connection, by, Action("rules.remove"), f"spelling rule {rule.in_words()}", company_id=company_id)
    return True


def spellings_of(rules: Sequence[SpellingRule], units: Iterable[str]) -> list[str]:
    """The values by which routes may name these units: each unit itself, and its spelling by each rule."""
    return [value for unit in units for value in (unit, *(rule.spells(unit) for rule in rules))]
