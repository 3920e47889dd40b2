"""The terms of a replay: the policy, the network and the deals under which trips are solved again.

A term is a text such as `reserve=12`, `without-brand=Blue Mesa` or `discount=Love's=0.45`. Commands, pages and stored
replays all write terms in this way."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from domain.accounts.policy import PlanPolicy, Policy
from domain.contract.captions import captioned_fields
from domain.contract.checking import Invalid, read_query
from domain.errors import FuelrouteError
from domain.stations.believed_prices import MOST_DISCOUNT
from domain.stations.chains import brand_key
from domain.stations.prices import Deal

ALL_DEALS, QUOTES = "all", "quotes"
"""Names among `without_deals`: every deal with all quotes, and the quotes of price files alone."""

_MOST_TERMS = 100


class UnusableTerm(FuelrouteError):
    """A term that makes no sense. The text says why."""


class Terms(Struct, frozen=True, omit_defaults=True):
    """The changes on one side of a replay. Brands are compared by their words: `Loves` is `Love's`.

    `without_deals` are numbers of deals, brands or stations that deals are for, or one of the two names above.
    `discounts` are dollars a gallon off the retail price, by brand, beside the deals that held: the lowest price
    counts.
    """

    policy: dict[str, Any] = {}
    without_brands: tuple[str, ...] = ()
    only_brands: tuple[str, ...] = ()
    without_deals: tuple[str, ...] = ()
    discounts: tuple[tuple[str, float], ...] = ()

    @property
    def changes_prices(self) -> bool:
        return bool(self.without_deals or self.discounts)

    @property
    def changes_network(self) -> bool:
        return bool(self.without_brands or self.only_brands)

    @property
    def brands(self) -> list[str]:
        """The brands that are named."""
        return [*self.without_brands, *self.only_brands, *(brand for brand, _ in self.discounts)]

    def has_brand(self, brand: str | None) -> bool:
        """True if trucks may buy at stations of this brand."""
        key = brand_key(brand)
        if key in map(brand_key, self.without_brands):
            return False
        return not self.only_brands or key in map(brand_key, self.only_brands)

    def removes(self, deal: Deal, station_id: str) -> bool:
        return any(_is_named(deal, station_id, name) for name in self.without_deals)

    @property
    def removes_quotes(self) -> bool:
        return ALL_DEALS in self.without_deals or QUOTES in self.without_deals

    def in_words(self) -> str:
        """The terms for people; empty for none."""
        labels = {field.name: field.label for field in captioned_fields(Policy)}
        words = [f"{labels[name]}: {'no limit' if value is None else value}" for name, value in self.policy.items()]
        words += [f"without {brand}" for brand in self.without_brands]
        words += [f"only {' or '.join(self.only_brands)}"] if self.only_brands else []
        words += [_without_deal_in_words(name) for name in self.without_deals]
        words += [f"${dollars:.3f} off at {brand}" for brand, dollars in self.discounts]
        return "; ".join(words)


def _without_deal_in_words(name: str) -> str:
    if name == ALL_DEALS:
        return "without any deal"
    if name == QUOTES:
        return "without net prices of price files"
    return f"without deal {name}" if is_number(name) else f"without the deal for {name}"


def is_number(name: str) -> bool:
    """True for the number of a deal, among `without_deals`."""
    return name.isascii() and name.isdigit()


def _is_named(deal: Deal, station_id: str, name: str) -> bool:
    if is_number(name) or name == ALL_DEALS:  # a number, also where a station has such an id
        return name in (ALL_DEALS, str(deal.number))
    return brand_key(deal.brand) == brand_key(name) if deal.brand is not None else station_id == name


class ReplayTerms(Struct, frozen=True):
    """The terms of both sides, and the company's policy when the replay was asked for. A value that the policy did not
    have then, before an upgrade, is the usual one. `weighs_deals`: each deal of the company is taken away by itself,
    too."""

    policy: dict[str, Any]
    before: Terms = Terms()
    after: Terms = Terms()
    weighs_deals: bool = False

    def policies(self) -> tuple[PlanPolicy, PlanPolicy]:
        """The policies of both sides. Both have the cheapest plans, without the margin that may cost some dollars,
        unless the terms name that margin: it would hide a difference of cents."""
        base = {name: self.policy.get(name, usual) for name, usual in _usual_values().items()}
        if not any("margin_dollars" in one.policy for one in (self.before, self.after)):
            base["margin_dollars"] = 0.0
        return PlanPolicy(**{**base, **self.before.policy}), PlanPolicy(**{**base, **self.after.policy})


@cache
def _usual_values() -> Mapping[str, Any]:
    """The values of a new company's policy by which fuel is planned."""
    fields = captioned_fields(Policy, *PlanPolicy._fields)
    return {field.name: field.type(field.default) if field.default else None for field in fields}


def replay_terms(policy: PlanPolicy, before: Terms, after: Terms, *, weighs_deals: bool = False) -> ReplayTerms:
    """The terms of a replay. Raises UnusableTerm where both sides are the same, and where deals are to be weighed under
    other terms."""
    if weighs_deals and (before, after) != (Terms(), Terms()):
        raise UnusableTerm("what deals are worth is asked by itself: leave the other terms out, or leave --deals out")
    if weighs_deals:
        before, after = Terms(), Terms(without_deals=(ALL_DEALS,))
    if before == after:
        raise UnusableTerm("nothing would change: say what is to be different")
    return ReplayTerms(policy._asdict(), before, after, weighs_deals)


def parse_terms(texts: Iterable[str]) -> Terms:
    """The terms of these texts. Raises UnusableTerm."""
    read: dict[str, list[Any]] = {"without-brand": [], "only-brand": [], "without-deal": [], "discount": []}
    policy: dict[str, Any] = {}
    listed = list(texts)
    if len(listed) > _MOST_TERMS:
        raise UnusableTerm(f"more than {_MOST_TERMS} terms")
    for text in listed:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise UnusableTerm(f"{text!r} is no term: write it as reserve=12")
        if name == "discount":
            read[name].append(_discount(value))
        elif name in read:
            read[name].append(value)
        else:
            policy |= _policy_value(name, value)
    return Terms(policy, *(tuple(dict.fromkeys(values)) for values in read.values()))


def _discount(text: str) -> tuple[str, float]:
    brand, _, dollars = text.rpartition("=")
    try:
        amount = float(dollars)
    except ValueError:
        amount = -1.0
    if not brand.strip() or not 0 < amount <= MOST_DISCOUNT:
        most = f"in dollars a gallon, {MOST_DISCOUNT:.2f} at most"
        raise UnusableTerm(f"{text!r} is no discount: write it as Love's=0.45, {most}")
    return brand.strip(), amount


def _policy_value(given: str, value: str) -> dict[str, Any]:
    """A value of the policy, by its name or the beginning of its name."""
    name = given.replace("-", "_")
    found = [name] if name in PlanPolicy._fields else [one for one in PlanPolicy._fields if one.startswith(name)]
    if len(found) != 1:
        names = ", ".join(found or PlanPolicy._fields)
        raise UnusableTerm(f"{given!r} is not the name of one value of the policy: {names}")
    if found[0] == "max_stops" and value == "none":
        return {"max_stops": None}
    try:
        read = read_query({found[0]: value}, Policy)
    except Invalid as invalid:
        raise UnusableTerm(f"{given}: {'; '.join(fault.message for fault in invalid.faults)}") from None
    return {found[0]: msgspec.to_builtins(getattr(read, found[0]))}


def term_texts(terms: Terms) -> list[str]:
    """The texts that `parse_terms` reads as these terms."""
    policy: Mapping[str, Any] = terms.policy
    return [
        *(f"{name}={'none' if value is None else value}" for name, value in policy.items()),
        *(f"without-brand={one}" for one in terms.without_brands),
        *(f"only-brand={one}" for one in terms.only_brands),
        *(f"without-deal={one}" for one in terms.without_deals),
        *(f"discount={brand}={dollars}" for brand, dollars in terms.discounts),
    ]
