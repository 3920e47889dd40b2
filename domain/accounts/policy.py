"""The policy of a company: how its routes are imported, and how the fuel of its trucks is planned."""

from datetime import datetime
from typing import Annotated, NamedTuple
from uuid import UUID

from msgspec import Meta, Struct

from domain.contract.captions import Caption
from domain.lifecycle import MapLink, MpgChoice, Objective

AUTODRIVE_OFF = "off"

ANY_SHARE_PERCENT = 100.0
"""Any number of trips may fall below the reserve."""

Percent = Annotated[float, Meta(ge=0, le=100)]


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a company; None leaves a value as it is. Each field declares its limits, and the caption that the
    console's form and the command line show, with the default of the table and the field's group in the form."""

    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None, Caption("Name of the company", group="Company")
    ] = None
    time_zone: Annotated[
        str | None,
        Caption(
            "Time zone",
            "for times in messages, and the beginning of a day for deals and taxes, such as America/Chicago",
            default="UTC",
            group="Company",
        ),
    ] = None
    import_window_days: Annotated[
        Annotated[float, Meta(ge=0, le=3660)] | None,
        Caption("Import window, days", "routes that start more days ahead are held", default="7", group="Import"),
    ] = None
    superseding: Annotated[
        bool | None,
        Caption(
            "A newer load with the same reference",
            default="false",
            choices={"false": "keep both routes", "true": "the newer one replaces the older"},
            group="Import",
        ),
    ] = None
    reserve_percent: Annotated[
        Percent | None,
        Caption("Reserve, percent", "the tank never falls below it", default="15", group="Tank and reserve"),
    ] = None
    end_fuel_percent: Annotated[
        Percent | None, Caption("Fuel at the destination, percent", default="25", group="Tank and reserve")
    ] = None
    assumed_fuel_percent: Annotated[
        Percent | None,
        Caption(
            "Assumed fuel, percent",
            "the level of a truck that has sent none for 24 hours",
            default="50",
            group="Tank and reserve",
        ),
    ] = None
    trips_below_reserve_percent: Annotated[
        Annotated[float, Meta(ge=0.1, le=100)] | None,
        Caption(
            "Trips that may fall below the reserve, percent",
            "plans keep more fuel the more they have burned, because mileages are never exact, such as 5; 100: no more"
            " than the reserve",
            default="100",
            group="Tank and reserve",
        ),
    ] = None
    margin_dollars: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None,
        Caption(
            "Margin for at most, dollars a plan",
            "plans of trucks whose burn has been seen to differ keep more than the reserve where that costs no more;"
            " 0: never",
            default="3",
            group="Tank and reserve",
        ),
    ] = None
    fuel_margin_percent: Annotated[
        Percent | None,
        Caption(
            "Margin, percent",
            "replaced by --trips-below-reserve-percent, which it sets: 0 to 100, below 5 to 20, below 10 to 10, else 5",
            default="0",
            group="Tank and reserve",
            is_replaced=True,
        ),
    ] = None
    mpg_choice: Annotated[
        MpgChoice | None,
        Caption(
            "A truck whose trips contradict its declared miles per gallon",
            "from three trips and 1,500 miles on",
            default=MpgChoice.LEARNED,
            choices={
                MpgChoice.LEARNED: "is planned with what its trips show",
                MpgChoice.DECLARED: "is planned as declared",
                MpgChoice.LOWER: "is planned with the lower of the two",
            },
            group="Tank and reserve",
        ),
    ] = None
    watch_burn: Annotated[
        bool | None,
        Caption(
            "A truck on its way whose fuel does not last to its next purchase",
            default="true",
            choices={"true": "gets a new plan in time", "false": "keeps its plan, and nobody is told"},
            group="Tank and reserve",
        ),
    ] = None
    burn_floor_percent: Annotated[
        Percent | None,
        Caption(
            "Floor on the way, percent",
            "a truck that would arrive with less at its next purchase gets a new plan",
            default="12",
            group="Tank and reserve",
        ),
    ] = None
    min_purchase_gallons: Annotated[
        Annotated[float, Meta(ge=0, le=1000)] | None,
        Caption("Smallest purchase, gallons", default="30", group="Purchases"),
    ] = None
    stop_cost: Annotated[
        Annotated[float, Meta(ge=0, le=10_000)] | None,
        Caption("Cost of a stop, dollars", default="20", group="Purchases"),
    ] = None
    max_detour_miles: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None,
        Caption("Longest detour, miles", "to a truck stop, each way", default="5", group="Purchases"),
    ] = None
    max_stops: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | None,
        Caption("Most fuel stops of a plan", "no limit unless set", group="Purchases"),
    ] = None
    objective: Annotated[
        Objective | None,
        Caption(
            "Prices that plans compare",
            default=Objective.PUMP,
            choices={Objective.PUMP: "at the pump", Objective.TAX_ADJUSTED: "less the fuel tax"},
            group="Prices",
        ),
    ] = None
    leftover_value_per_gallon: Annotated[
        Annotated[float, Meta(ge=0, lt=100)] | None,
        Caption("Value of leftover fuel, dollars a gallon", default="0", group="Prices"),
    ] = None
    driven_lanes: Annotated[
        bool | None,
        Caption(
            "A route whose stops trucks of the company have driven before",
            default="true",
            choices={
                "true": "takes the road that three agree on",
                "false": "takes the quickest, none is learned",
            },
            group="Roads",
        ),
    ] = None
    replan_en_route: Annotated[
        bool | None,
        Caption(
            "A truck that leaves its plan's road, or passes a fuel stop without fueling",
            default="false",
            choices={"false": "keeps its plan", "true": "gets a new plan"},
            group="Roads",
        ),
    ] = None
    savings_target_per_week: Annotated[
        Annotated[float, Meta(ge=0, le=10_000_000)] | None,
        Caption(
            "Savings target, dollars a week", "a line in the chart of savings; 0: no line", default="0", group="Savings"
        ),
    ] = None
    statement_day: Annotated[
        Annotated[int, Meta(ge=1, le=28)] | None,
        Caption(
            "Day of the savings statement",
            "the day of the month on which the statement of the month before is made, signed and sent",
            default="5",
            group="Savings",
        ),
    ] = None
    driver_allowance: Annotated[
        Annotated[float, Meta(ge=0, le=10_000)] | None,
        Caption(
            "Allowance of a driver, dollars a trip",
            "choices of other plans that cost no more in all are the driver's; above it, a dispatcher decides",
            default="0",
            group="Messages",
        ),
    ] = None
    map_link: Annotated[
        MapLink | None,
        Caption(
            "Maps in messages",
            default=MapLink.GOOGLE,
            choices={MapLink.GOOGLE: "a link that any phone opens", MapLink.GEO: "the phone's own map"},
            group="Messages",
        ),
    ] = None
    prices_for_drivers: Annotated[
        bool | None,
        Caption(
            "Prices for drivers",
            "in messages and on the page of a trip",
            default="true",
            choices={"true": "what the company pays is told", "false": "prices and costs are left out"},
            group="Messages",
        ),
    ] = None
    message_url: Annotated[
        str | None,
        Caption(
            "Message address",
            "an Apprise URL for drivers without a contact, such as mailtos://user:password@host",
            is_secret=True,
            group="Messages",
        ),
    ] = None
    answer_by_miles: Annotated[
        Annotated[float, Meta(ge=0, le=1_000)] | None,
        Caption(
            "Miles before a fuel stop by which the driver has answered",
            "where he gets a link to the page of his trip; a dispatcher is told of those who have not; 0: nobody is",
            default="0",
            group="Messages",
        ),
    ] = None
    detention_free_minutes: Annotated[
        Annotated[float, Meta(ge=0, le=10_000)] | None,
        Caption(
            "Free time at a stop, minutes",
            "after the arrival, or the beginning of the appointment if that is later; then detention begins",
            default="120",
            group="Stops",
        ),
    ] = None
    sandbox_autodrive: Annotated[
        str | None,
        Caption(
            "Simulated trucks in the sandbox",
            "how much faster than the clock they drive its routes, from 1x to 3600x, such as 60x; off: they do not",
            default=AUTODRIVE_OFF,
            group="Sandbox",
        ),
    ] = None


class StoredCompany(NamedTuple):
    """A company as it is stored. `fuelroute companies set --json` shows it in this order."""

    id: UUID
    name: str
    time_zone: str
    import_window_days: float
    superseding: bool
    reserve_percent: float
    end_fuel_percent: float
    assumed_fuel_percent: float
    min_purchase_gallons: float
    stop_cost: float
    max_detour_miles: float
    max_stops: int | None
    message_url: str | None
    created_at: datetime
    objective: str
    leftover_value_per_gallon: float
    fuel_margin_percent: float
    trips_below_reserve_percent: float
    margin_dollars: float
    map_link: str
    replan_en_route: bool
    watch_burn: bool
    burn_floor_percent: float
    driven_lanes: bool
    sandbox_autodrive: str
    savings_target_per_week: float
    statement_day: int
    mpg_choice: str
    answer_by_miles: float
    driver_allowance: float
    detention_free_minutes: float
    prices_for_drivers: bool
    retired_at: datetime | None


class PlanPolicy(NamedTuple):
    """The values of the policy by which the fuel of a company's trucks is planned. Percents are of the rated
    capacity."""

    reserve_percent: float
    end_fuel_percent: float
    assumed_fuel_percent: float
    trips_below_reserve_percent: float
    margin_dollars: float
    min_purchase_gallons: float
    stop_cost: float
    max_detour_miles: float
    max_stops: int | None
    objective: str
    leftover_value_per_gallon: float
