"""A driver takes a choice of his plan's menu: his plan is the choice from then on, he is told once, and what it costs
beyond his allowance is for a dispatcher to decide."""

from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import pytest

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.audit.entries import Actor
from domain.database.connections import Connection
from domain.documents import PlanCause
from domain.housekeeping.retention import delete_routes
from domain.lifecycle import ChoiceKind
from domain.needs.company_needs import find_needs
from domain.needs.route_needs import RoutesInNeed
from domain.planning.stored_plans import await_menu
from domain.routes.events import ImpossibleStep, events_of
from domain.routes.plans import choices, menus
from domain.routes.plans.closed_stations import close_station
from domain.routes.plans.made_choices import CENTS_DEARER
from domain.routes.plans.replans import ask_for_replans
from domain.routes.plans.reviews import review_failed
from domain.routes.plans.stored_choices import StoredChoice, choice_in_words, extra_in_words, menu_of
from domain.routes.plans.withheld_messages import discard_withheld
from domain.routes.reading.explanations import read_route_explanation
from domain.routes.reading.lookups import read_routes
from domain.savings.recording import record_savings
from domain.settings import Settings
from tests.domain.routes.journey import Journey, Leg
from tests.factories import DOT, Fleet, make_fleet, put_demo_stations
from tests.jobs import jobs_of

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def journey(request: Any, connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Journey:
    put_demo_stations(connection, now=now)
    return Journey(connection, fleet, settings, now, live=getattr(request, "param", "live") == "live", menus=True)


def menu(journey: Journey) -> list[StoredChoice]:
    return menu_of(journey.connection, journey.tenant, journey.route.plan_id)


def first_of(journey: Journey, kind: ChoiceKind) -> StoredChoice:
    return next(one for one in menu(journey) if one.kind == kind)


def allow(journey: Journey, dollars: float) -> None:
    set_policy(journey.connection, journey.fleet.company_id, Policy(driver_allowance=dollars), DOT)


def choose(journey: Journey, choice: StoredChoice, by: Actor | None = None) -> str:
    """Takes a choice, and does what follows."""
    status = choices.choose(journey.connection, journey.tenant, journey.route_id, choice.id, by, now=journey.now)
    journey.run(jobs_of(journey.connection))
    return status


def now_of(journey: Journey, choice: StoredChoice) -> StoredChoice:
    """The choice as it is stored now."""
    of_plan = menu_of(journey.connection, journey.tenant, choice.plan_id)
    return next(one for one in of_plan if one.id == choice.id)


def needs(journey: Journey) -> list[str]:
    found = find_needs(journey.connection, journey.tenant, kinds=["choice_asked"], now=journey.now)
    return [one.detail or "" for need in found.values() if isinstance(need, RoutesInNeed) for one in need.named]


def set_price(journey: Journey, station_id: str, price: float) -> None:
    journey.connection.execute(
        "UPDATE stations SET retail_price = %s, priced_at = %s WHERE station_id = %s", (price, journey.now, station_id)
    )


def test_a_plan_comes_with_choices_that_tell_their_extra_cost(journey: Journey) -> None:
    (plan,) = journey.versions()
    assert plan.menu_due_at is None
    found = menu(journey)
    assert [one.kind for one in found] == ["other_chain", "later", "earlier"]
    assert [one.status for one in found] == ["open"] * 3
    assert sorted(one.extra_cents for one in found) == [one.extra_cents for one in found]
    for one in found:
        extra = one.document["totalCost"] - plan.document["totalCost"]
        assert one.extra_cents == one.pump_cents == round(100 * extra), "both plans stop once"
        assert one.station_ids != plan.station_ids


@pytest.mark.parametrize("journey", ["live", "sandbox"], indirect=True)
def test_within_the_allowance_the_choice_is_the_plan_from_then_on(journey: Journey) -> None:
    allow(journey, 10)
    journey.drive(Leg(0, 40))
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)

    assert choose(journey, choice) == "taken"

    assert journey.causes() == [None, "choice"]
    first, second = journey.versions()
    assert journey.route.plan_id == second.id
    assert second.station_ids == choice.station_ids != first.station_ids
    made = now_of(journey, choice)
    assert (made.status, made.made_plan_id, made.asked_by, made.decided_by) == ("chosen", second.id, None, None)
    assert made.extra_cents == pytest.approx(choice.extra_cents, abs=50)
    _, message = journey.messages()
    assert message.text.startswith("CORRECTED fuel plan")
    assert f"\nWhy: chosen: {choice_in_words(choice)}\n" in message.text
    assert (journey.route.replan, journey.route.correction_id) == (None, None)

    explained = read_route_explanation(journey.connection, journey.route_id)
    assert explained is not None
    assert explained["choice"]["extra_cost"] == made.extra_cents / 100
    not_chosen = next(one for one in explained["candidates"] if one["station_id"] == first.station_ids[0])
    assert (not_chosen["why"], not_chosen["extra_cost"]) == ("chosen otherwise", 0.0)

    (saved,) = journey.connection.execute(
        "SELECT plan_id, cost_cents, chosen_cents FROM savings WHERE route_id = %s", (journey.route_id,)
    )
    assert saved == (second.id, round(100 * second.document["totalCost"]), made.extra_cents)

    back = first_of(journey, ChoiceKind.CHEAPEST)
    assert (back.station_ids, back.extra_cents) == (first.station_ids, 0)


def test_the_driver_is_told_once_however_often_the_choice_is_sent(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    tenant, route_id = journey.tenant, journey.route_id
    assert choices.choose(journey.connection, tenant, route_id, choice.id, None, now=journey.now) == "taken"
    assert choices.choose(journey.connection, tenant, route_id, choice.id, None, now=journey.now) == "taken"
    assert choices.choose(journey.connection, tenant, route_id, choice.id, DOT, now=journey.now) == "taken"
    journey.run(jobs_of(journey.connection))
    assert choose(journey, choice) == "chosen"
    assert len(journey.messages()) == 2


def test_another_choice_waits_until_the_plan_is_made(journey: Journey) -> None:
    allow(journey, 50)
    one, other, _ = menu(journey)
    choices.choose(journey.connection, journey.tenant, journey.route_id, one.id, None, now=journey.now)
    with pytest.raises(ImpossibleStep, match="a new plan is being made"):
        choices.choose(journey.connection, journey.tenant, journey.route_id, other.id, None, now=journey.now)
    journey.run(jobs_of(journey.connection))
    with pytest.raises(ImpossibleStep, match="there is a newer plan"):
        choose(journey, other)


def test_beyond_the_allowance_a_dispatcher_decides(journey: Journey) -> None:
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    assert choose(journey, choice) == "asked"
    assert choose(journey, choice) == "asked"
    assert needs(journey) == [choice_in_words(choice)]
    assert [one.kind for one in events_of(journey.connection, journey.fleet.company_id, journey.route_id)] == [
        "choice_asked"
    ]
    assert len(journey.messages()) == 1

    assert choose(journey, choice, DOT) == "taken"

    made = now_of(journey, choice)
    assert (made.status, made.asked_by, made.decided_by) == ("chosen", None, DOT.name)
    assert needs(journey) == []
    assert len(journey.messages()) == 2


def test_a_dispatcher_declines_and_the_driver_keeps_his_plan(journey: Journey) -> None:
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    choose(journey, choice)
    tenant, route_id = journey.tenant, journey.route_id
    for _ in range(2):
        assert choices.decline(journey.connection, tenant, route_id, choice.id, DOT, now=journey.now) == "declined"
    assert needs(journey) == []
    assert len(journey.versions()) == 1
    with pytest.raises(ImpossibleStep, match="declined"):
        choose(journey, choice)


def test_the_driver_changes_his_mind_before_a_dispatcher_decides(journey: Journey) -> None:
    one, other, _ = menu(journey)
    assert (choose(journey, one), choose(journey, other)) == ("asked", "asked")
    assert now_of(journey, one).status == "open"
    assert needs(journey) == [choice_in_words(other)]


def test_what_was_chosen_before_counts_against_the_allowance(journey: Journey) -> None:
    allow(journey, 10)
    assert choose(journey, first_of(journey, ChoiceKind.OTHER_CHAIN)) == "taken"
    dearer = next(one for one in menu(journey) if one.extra_cents > 300)
    assert choose(journey, dearer) == "asked"
    assert choose(journey, first_of(journey, ChoiceKind.CHEAPEST)) == "taken", "it costs nothing more"


def chosen_cents(journey: Journey) -> Any:
    """The extra cost of choices that stands beside the route's savings."""
    ((cents,),) = journey.connection.execute(
        "SELECT chosen_cents FROM savings WHERE route_id = %s", (journey.route_id,)
    )
    return cents


def test_savings_count_the_choice_that_the_driver_has_and_none_that_he_gave_up_for_another(journey: Journey) -> None:
    allow(journey, 50)
    one = first_of(journey, ChoiceKind.OTHER_CHAIN)
    choose(journey, one)
    assert chosen_cents(journey) == now_of(journey, one).extra_cents > 0
    other = next(choice for choice in menu(journey) if choice.extra_cents > 300)
    choose(journey, other)
    assert chosen_cents(journey) == now_of(journey, other).extra_cents
    choose(journey, first_of(journey, ChoiceKind.CHEAPEST))
    assert chosen_cents(journey) == 0


def test_savings_of_a_route_that_is_pushed_again_count_no_choice_of_before(journey: Journey) -> None:
    allow(journey, 50)
    choose(journey, first_of(journey, ChoiceKind.OTHER_CHAIN))
    journey.connection.execute("UPDATE routes SET revision = revision + 1 WHERE id = %s", (journey.route_id,))
    record_savings(journey.connection, journey.route_id)
    assert chosen_cents(journey) is None


def test_a_review_does_not_take_back_a_choice_whose_message_is_not_out(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    choices.choose(journey.connection, journey.tenant, journey.route_id, choice.id, None, now=journey.now)
    (job,) = jobs_of(journey.connection)
    waiting = [one for one in journey.work(job) if one.name == "messages.send"]
    set_price(journey, choice.station_ids[0], 4.9)
    journey.connection.execute(
        "UPDATE routes SET review_at = %s, review_cause = 'dispatcher' WHERE id = %s", (journey.now, journey.route_id)
    )

    assert journey.begun() is None

    journey.run(waiting)
    assert journey.causes() == [None, "choice"]
    assert journey.route.plan_id == now_of(journey, choice).made_plan_id
    assert len(journey.messages()) == 2
    assert journey.begun() is None
    assert journey.route.review_at is None, "the plan was corrected: it is not reviewed any more"


def test_a_choice_that_has_become_dearer_is_offered_again(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    set_price(journey, choice.station_ids[0], 4.5)

    assert choose(journey, choice) == "taken"

    again = now_of(journey, choice)
    assert again.status == "open"
    assert again.extra_cents > 1_000
    assert again.reason == f"it costs {extra_in_words(again.extra_cents)} by now"
    assert (len(journey.versions()), len(journey.messages())) == (1, 1)
    assert journey.route.replan is None
    assert choose(journey, again) == "asked"


def test_a_review_that_a_dispatcher_asked_for_before_a_refused_choice_is_made(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    set_price(journey, choice.station_ids[0], 4.5)
    journey.connection.execute(
        "UPDATE routes SET review_at = %s, review_cause = 'dispatcher' WHERE id = %s", (journey.now, journey.route_id)
    )

    assert choose(journey, choice) == "taken"
    assert now_of(journey, choice).status == "open"

    journey.run(journey.lost_jobs())
    assert (journey.route.review_at, journey.route.review_cause) == (None, None)
    assert "plan_kept" in [
        one.kind for one in events_of(journey.connection, journey.fleet.company_id, journey.route_id)
    ]


def test_a_station_that_was_closed_since_is_refused(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    close_station(
        journey.connection, choice.station_ids[0], None, journey.now + timedelta(days=3), DOT, now=journey.now
    )
    choose(journey, choice)
    assert (now_of(journey, choice).status, now_of(journey, choice).reason) == (
        "refused",
        "its station is closed, or was refused",
    )
    assert len(journey.messages()) == 1
    with pytest.raises(ImpossibleStep, match="closed"):
        choose(journey, choice)


def test_a_station_behind_the_truck_is_refused(journey: Journey) -> None:
    allow(journey, 50)
    choice = first_of(journey, ChoiceKind.EARLIER)
    journey.drive(Leg(0, choice.document["stops"][0]["milesFromOrigin"] + 20))
    choose(journey, choice)
    refused = now_of(journey, choice)
    assert (refused.status, refused.reason) == ("refused", "its station is not ahead any more, or has no price")


def test_a_choice_whose_plan_was_given_up_is_refused(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    choices.choose(journey.connection, journey.tenant, journey.route_id, choice.id, None, now=journey.now)
    review_failed(journey.connection, journey.route_id, max_attempts=1, now=journey.now)
    assert now_of(journey, choice).status == "refused"


def make_without_message(journey: Journey, choice: StoredChoice, by: Actor | None = None) -> StoredChoice:
    """Takes the choice, and makes its plan; the message stays unsent."""
    choices.choose(journey.connection, journey.tenant, journey.route_id, choice.id, by, now=journey.now)
    (job,) = jobs_of(journey.connection)
    journey.run([one for one in journey.work(job) if one.name == "plans.menu"])
    return now_of(journey, choice)


def give_up_message(journey: Journey, plan_id: UUID | None) -> None:
    journey.connection.execute("UPDATE messages SET withheld_since = now() WHERE plan_id = %s", (plan_id,))
    discard_withheld(journey.connection, journey.fleet.company_id, None, DOT, now=journey.now)


def test_a_choice_of_a_dispatcher_whose_message_is_given_up_is_taken_back(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    made = make_without_message(journey, choice, DOT)
    assert (made.status, journey.route.correction_id) == ("chosen", made.made_plan_id)

    give_up_message(journey, made.made_plan_id)

    back = now_of(journey, choice)
    assert (back.status, back.reason) == ("refused", "its message could not be delivered")
    assert (journey.route.plan_id, journey.route.correction_id) == (choice.plan_id, None)
    assert chosen_cents(journey) is None
    assert journey.begun() is None, "the driver keeps his plan, and nothing is under way"


@pytest.mark.parametrize("is_asked_first", [False, True])
def test_a_choice_that_the_driver_took_is_his_plan_before_its_message_is_out(
    journey: Journey, is_asked_first: bool
) -> None:
    allow(journey, 0 if is_asked_first else 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    if is_asked_first:
        assert choose(journey, choice) == "asked"

    made = make_without_message(journey, choice, DOT if is_asked_first else None)

    assert (journey.route.plan_id, journey.route.correction_id) == (made.made_plan_id, None)
    (shown,) = read_routes([(journey.tenant, journey.route_id)]).on(journey.connection)
    assert shown is not None
    assert shown.route.fuel_plan is not None
    assert shown.route.fuel_plan.stops[0].name == choice.document["stops"][0]["name"]
    assert chosen_cents(journey) == made.extra_cents
    explained = read_route_explanation(journey.connection, journey.route_id)
    assert explained is not None
    assert explained["choice"]["extra_cost"] == made.extra_cents / 100
    kept = choices.choice_ahead(journey.connection, journey.tenant, journey.route_id)
    assert kept is not None
    assert kept.id == choice.id

    journey.run(journey.lost_jobs())
    assert [message.status for message in journey.messages()] == ["sent", "sent"]
    assert journey.route.plan_id == made.made_plan_id


def test_a_choice_that_the_driver_took_stays_his_plan_where_no_message_reaches_him(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    made = make_without_message(journey, choice)
    journey.connection.execute("UPDATE tracks SET look_from = look_from + interval '1 hour'")
    looked = journey.track

    give_up_message(journey, made.made_plan_id)

    assert journey.track == looked, "the truck is on the way with this plan, and is watched from where it is"
    assert now_of(journey, choice).status == "chosen"
    assert journey.route.plan_id == made.made_plan_id
    back = first_of(journey, ChoiceKind.CHEAPEST)
    assert choose(journey, back) == "taken", "he may still choose otherwise"
    assert journey.versions()[-1].station_ids == back.station_ids


def test_a_choice_of_another_company_is_unknown(journey: Journey, connection: Connection) -> None:
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    other = make_fleet(connection)
    for tenant in (other.live, other.sandbox):
        with pytest.raises(ImpossibleStep):
            choices.choose(connection, tenant, journey.route_id, choice.id, None, now=journey.now)
        assert menu_of(connection, tenant, journey.route.plan_id) == []
    assert now_of(journey, choice).status == "open"


def test_a_menu_is_made_once_and_a_lost_one_is_found(journey: Journey) -> None:
    connection, plan_id = journey.connection, journey.route.plan_id
    assert menus.begin_menu(connection, plan_id, max_attempts=8) is None, "it has one"
    connection.execute("DELETE FROM plan_choices WHERE plan_id = %s", (plan_id,))
    await_menu(connection, plan_id, now=journey.now)
    later = journey.now + timedelta(minutes=1)
    assert menus.due_menus(connection, now=later)[plan_id] == journey.fleet.company_id
    journey.make_menu(plan_id)
    assert len(menu(journey)) == 3
    assert plan_id not in menus.due_menus(connection, now=later)


def test_a_menu_whose_attempts_never_end_is_given_up(journey: Journey) -> None:
    connection, plan_id = journey.connection, journey.route.plan_id
    connection.execute("DELETE FROM plan_choices WHERE plan_id = %s", (plan_id,))
    connection.execute("UPDATE plans SET menu_attempts = 0 WHERE id = %s", (plan_id,))
    await_menu(connection, plan_id, now=journey.now)

    begun = [menus.begin_menu(connection, plan_id, max_attempts=3) is not None for _ in range(5)]

    assert begun == [True, True, True, False, False]
    assert plan_id not in menus.due_menus(connection, now=journey.now + timedelta(days=1))


def test_choices_go_with_their_route(journey: Journey) -> None:
    plan_id = journey.route.plan_id
    delete_routes(journey.connection, [journey.route_id])
    assert menu_of(journey.connection, journey.tenant, plan_id) == []


def replanned(journey: Journey, kind: Literal["burn", "off_road"] = "burn") -> None:
    """Has the driver's plan made anew on the way."""
    cause = PlanCause(kind=kind, at=journey.now.isoformat(), text="it is needed", fuelStopsPassed=0)
    ask_for_replans(journey.connection, {journey.route_id: cause}, now=journey.now)
    journey.run(jobs_of(journey.connection))


@pytest.mark.parametrize("kind", ["burn", "off_road"])
def test_a_plan_that_is_made_anew_keeps_the_choice(journey: Journey, kind: Literal["burn", "off_road"]) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    choose(journey, choice)

    replanned(journey, kind)

    *_, newest = journey.versions()
    assert journey.causes() == [None, "choice", kind]
    assert newest.station_ids == choice.station_ids
    assert newest.cause["choice"] == str(choice.id)
    assert len(journey.messages()) == 2, "his plan is as it was"


def test_a_choice_that_has_become_too_dear_is_given_up_for_the_next_plan_which_says_so(journey: Journey) -> None:
    allow(journey, 11)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    choose(journey, choice)
    dearer = next(one for one in menu(journey) if one.extra_cents > 300)
    assert choices.choose(journey.connection, journey.tenant, journey.route_id, dearer.id, None, now=journey.now) == (
        "asked"
    ), "what he has chosen counts"
    set_price(journey, choice.station_ids[0], 4.9)

    replanned(journey)

    *_, newest = journey.versions()
    assert newest.station_ids != choice.station_ids
    assert newest.cause["text"].startswith(f"it is needed; {choice_in_words(now_of(journey, choice))} was chosen, but")
    assert newest.cause["text"].endswith("more by now")
    assert len(journey.messages()) == 3
    assert chosen_cents(journey) is None, "it has cost nothing"
    other = menu(journey)[0]
    assert 1_100 - now_of(journey, choice).extra_cents < other.extra_cents <= 1_100
    assert choose(journey, other) == "taken", "the whole allowance is there again"


def test_a_choice_whose_station_is_refused_is_given_up(journey: Journey) -> None:
    allow(journey, 10)
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    choose(journey, choice)
    close_station(
        journey.connection, choice.station_ids[0], None, journey.now + timedelta(days=3), DOT, now=journey.now
    )
    journey.run(jobs_of(journey.connection))

    *_, newest = journey.versions()
    assert newest.cause["text"].endswith("was chosen, but its station is closed, or was refused")
    assert len(journey.messages()) == 3


def test_a_choice_that_becomes_a_little_dearer_with_each_plan_does_not_drift_beyond_what_was_agreed(
    journey: Journey,
) -> None:
    choice = first_of(journey, ChoiceKind.OTHER_CHAIN)
    assert choose(journey, choice, DOT) == "taken"
    agreed = choice.extra_cents
    costs = []
    for _ in range(2):
        journey.connection.execute("UPDATE stations SET retail_price = retail_price * (1 + 35.0 / %s)", (agreed,))
        replanned(journey, "off_road")
        costs.append(now_of(journey, choice).extra_cents)

    *_, kept, newest = journey.versions()
    assert agreed + 20 < costs[0] <= agreed + CENTS_DEARER
    assert (kept.cause["choice"], kept.cause["agreedCents"]) == (str(choice.id), agreed)
    assert newest.cause["text"].endswith("more by now"), "70 cents are more than what was agreed"
    assert newest.station_ids != choice.station_ids
