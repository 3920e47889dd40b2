"""Companies and their policy: what is not given stays, what cannot be set is named."""

from typing import Any

import pytest

from domain.accounts.companies import UnknownCompany, UnusablePolicy, create_company, require_company, set_policy
from domain.accounts.policy import PlanPolicy, Policy, StoredCompany
from domain.contract.captions import CaptionedField, captioned_fields
from domain.database.connections import Connection
from domain.ids import new_id, shown_id
from domain.tables.accounts import Companies
from tests.factories import DOT

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

_COLUMNS: Any = Companies.__table__.columns  # type: ignore[attr-defined]
_OF_PASSES = {"detention_judged_minutes"}
"""Columns in which a pass notes how far it came: they are no values of a company."""


def test_a_new_company_has_the_defaults_of_the_design(connection: Connection) -> None:
    company = set_policy(connection, create_company(connection, Policy(name="Acme")), Policy(), DOT)

    assert (company.name, company.time_zone, company.import_window_days) == ("Acme", "UTC", 7)
    assert (company.superseding, company.message_url, company.max_stops) == (False, None, None)
    assert (company.reserve_percent, company.end_fuel_percent, company.assumed_fuel_percent) == (15, 25, 50)
    assert (company.trips_below_reserve_percent, company.fuel_margin_percent, company.map_link) == (100, 0, "google")
    assert (company.min_purchase_gallons, company.stop_cost, company.max_detour_miles) == (30, 20, 5)


def test_a_stored_company_has_every_value_of_the_policy_and_every_column_of_the_table() -> None:
    assert set(StoredCompany._fields) == {*Policy.__struct_fields__, "id", "created_at", "retired_at"}
    assert set(StoredCompany._fields) == set(_COLUMNS.keys()) - _OF_PASSES


def test_plans_are_made_by_values_of_the_policy() -> None:
    assert set(PlanPolicy._fields) < set(Policy.__struct_fields__)


@pytest.mark.parametrize("field", captioned_fields(Policy), ids=lambda field: field.name)
def test_a_caption_names_the_default_of_the_table(field: CaptionedField) -> None:
    default: Any = _COLUMNS[field.name].server_default

    assert field.default == (default.arg.text.strip("'") if default is not None else "")


def test_every_value_of_the_policy_has_a_caption() -> None:
    assert [field.name for field in captioned_fields(Policy)] == list(Policy.__struct_fields__)


def test_values_that_are_not_given_stay(connection: Connection) -> None:
    company_id = create_company(connection, Policy(name="Acme", stop_cost=12.5, time_zone="America/Chicago"))

    company = set_policy(connection, company_id, Policy(superseding=True, max_stops=0), DOT)

    assert (company.name, company.stop_cost, company.time_zone) == ("Acme", 12.5, "America/Chicago")
    assert (company.superseding, company.max_stops) == (True, 0)
    assert set_policy(connection, company_id, Policy(superseding=False), DOT).superseding is False


@pytest.mark.parametrize(("margin", "share"), [(0.1, 20), (5, 10), (9.9, 10), (10, 5), (100, 5), (0, 100)])
def test_the_margin_sets_the_share_of_trips_that_has_taken_its_place(
    connection: Connection, margin: float, share: float
) -> None:
    company_id = create_company(connection, Policy(name="Acme", trips_below_reserve_percent=7))

    company = set_policy(connection, company_id, Policy(fuel_margin_percent=margin), DOT)

    assert (company.fuel_margin_percent, company.trips_below_reserve_percent) == (margin, share)
    company = set_policy(connection, company_id, Policy(trips_below_reserve_percent=2), DOT)
    assert (company.fuel_margin_percent, company.trips_below_reserve_percent) == (0, 2)


def test_a_policy_changes_one_company_only(connection: Connection) -> None:
    one, other = (create_company(connection, Policy(name=name)) for name in ("one", "other"))

    set_policy(connection, one, Policy(stop_cost=5), DOT)

    assert set_policy(connection, other, Policy(), DOT).stop_cost == 20


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"reserve_percent": 100.1}, "reserve_percent"),
        ({"end_fuel_percent": -1}, "end_fuel_percent"),
        ({"assumed_fuel_percent": float("nan")}, "assumed_fuel_percent"),
        ({"import_window_days": float("inf")}, "import_window_days"),
        ({"min_purchase_gallons": -0.1}, "min_purchase_gallons"),
        ({"stop_cost": 10_001}, "stop_cost"),
        ({"max_detour_miles": 101}, "max_detour_miles"),
        ({"max_stops": -1}, "max_stops"),
        ({"fuel_margin_percent": 101}, "fuel_margin_percent"),
        ({"trips_below_reserve_percent": 0.05}, "trips_below_reserve_percent"),
        ({"map_link": "paper"}, "map_link"),
        ({"time_zone": "Chicago"}, "Chicago"),
        ({"time_zone": ""}, "time zone"),
        ({"message_url": "somebody@example.org"}, "message URL"),
    ],
)
def test_a_value_that_cannot_be_set_is_named_and_nothing_is_stored(
    connection: Connection, values: dict[str, Any], named: str
) -> None:
    company_id = create_company(connection, Policy(name="Acme"))

    with pytest.raises(UnusablePolicy, match=named):
        set_policy(connection, company_id, Policy(**{"max_stops": 3, **values}), DOT)

    assert set_policy(connection, company_id, Policy(), DOT).max_stops is None


def test_a_message_url_that_is_refused_is_not_shown(connection: Connection) -> None:
    with pytest.raises(UnusablePolicy) as refusal:
        create_company(connection, Policy(name="Acme", message_url="twilioo://secret:token@+15550100"))

    assert "secret" not in str(refusal.value)


def test_an_unknown_company_is_reported_by_its_id(connection: Connection) -> None:
    nobody = new_id()
    for act in (
        lambda: set_policy(connection, nobody, Policy(), DOT),
        lambda: require_company(connection, nobody),
    ):
        with pytest.raises(UnknownCompany, match=shown_id("cmp", nobody)):
            act()
