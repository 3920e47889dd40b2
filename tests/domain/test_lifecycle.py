"""The nine statuses: what may follow what, what a push and a cancel do."""

import pytest

from domain.lifecycle import (
    CANCELABLE,
    HELD,
    TRANSITIONS,
    RouteStatus,
    effect_of_cancel,
    effect_of_push,
    superseded_by,
)

ALL = list(RouteStatus)


def test_the_statuses_are_the_nine_of_the_contract() -> None:
    assert {str(status) for status in RouteStatus} == {
        "pending",
        "pending_mapping",
        "pending_window",
        "draft",
        "planned",
        "active",
        "completed",
        "error",
        "canceled",
    }
    assert set(TRANSITIONS) == set(RouteStatus)


def test_no_status_follows_completed_and_canceled() -> None:
    assert {status for status, following in TRANSITIONS.items() if not following} == {
        RouteStatus.COMPLETED,
        RouteStatus.CANCELED,
    }


@pytest.mark.parametrize("status", ALL)
def test_a_cancel_is_allowed_exactly_where_canceled_may_follow(status: RouteStatus) -> None:
    assert (RouteStatus.CANCELED in TRANSITIONS[status]) is (effect_of_cancel(status) == "cancel")
    assert (status in CANCELABLE) is (effect_of_cancel(status) == "cancel")


@pytest.mark.parametrize("status", ALL)
def test_a_changed_push_starts_the_import_again_exactly_where_pending_may_follow(status: RouteStatus) -> None:
    replaced = effect_of_push(status, same_input=False) == "replace"

    assert replaced is (RouteStatus.PENDING in TRANSITIONS[status])


@pytest.mark.parametrize("status", [None, *ALL])
@pytest.mark.parametrize("same_input", [False, True])
def test_the_effect_of_a_push_follows_from_the_status_and_the_input(
    status: RouteStatus | None, same_input: bool
) -> None:
    effect = effect_of_push(status, same_input=same_input)

    match status:
        case None | RouteStatus.CANCELED:
            assert effect == "create"
        case RouteStatus.ACTIVE | RouteStatus.COMPLETED:
            assert effect == "refuse"
        case RouteStatus.ERROR:
            assert effect == "replace"
        case _:
            assert effect == ("unchanged" if same_input else "replace")


@pytest.mark.parametrize("status", ALL)
def test_the_effect_of_a_cancel_follows_from_the_status(status: RouteStatus) -> None:
    expected = {
        RouteStatus.ACTIVE: "refuse",
        RouteStatus.COMPLETED: "refuse",
        RouteStatus.ERROR: "refuse",
        RouteStatus.CANCELED: "already_canceled",
    }.get(status, "cancel")

    assert effect_of_cancel(status) == expected


def test_every_status_but_the_held_ones_is_reached_from_another() -> None:
    reached = set().union(*TRANSITIONS.values())

    assert reached | HELD == set(RouteStatus)


def test_the_reason_of_a_superseded_route_names_its_successor() -> None:
    assert superseded_by("LOAD-2") == "Superseded by LOAD-2"
