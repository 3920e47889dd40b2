"""The pages Notices: dispatchers and owners say who is told of what, and see what was sent."""

from typing import Any

import pytest

from domain.ids import shown_id
from domain.lifecycle import Role
from domain.needs.company_needs import COMPANY_NEEDS
from domain.notices.subscriptions import SUBSCRIPTIONS, Subscription
from tests.domain.notices.subscriptions import notices_of, subscribe
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, World, words
from tests.ingress.console.records import seen_on
from tests.rows import named

FORM: dict[str, Any] = {
    "name": "Night desk",
    "url": "json://user:hush@hooks.example.com/fuelroute",
    "kind": ["error", "late"],
    "after_minutes": "10",
    "quiet_from": "22:00",
    "quiet_until": "06:30",
    "time_zone": "America/Denver",
}


@pytest.fixture
def dispatcher(world: World, fleet: Fleet) -> Browser:
    browser = world.browser(Role.DISPATCHER, fleet)
    browser.look("/notices")
    return browser


def stored(world: World, fleet: Fleet) -> list[Subscription]:
    with world.database.transaction() as connection:
        return SUBSCRIPTIONS.all(connection, fleet.company_id)


def path_of(one: Subscription) -> str:
    return f"/notices/{shown_id('sub', one.id)}"


def audited(world: World, fleet: Fleet) -> list[str]:
    with world.database.transaction() as connection:
        query = "SELECT * FROM audit_log WHERE company_id = %s ORDER BY id"
        return [row.action for row in named(connection).execute(query, (fleet.company_id,)).fetchall()]


def test_a_dispatcher_adds_a_subscription_whose_address_is_not_shown(
    world: World, fleet: Fleet, dispatcher: Browser
) -> None:
    answer = dispatcher.submit("/notices", **FORM)

    assert answer.status_code == 303, words(answer.text)
    (one,) = stored(world, fleet)
    assert (one.name, one.kinds, one.after_minutes, one.user_id) == ("Night desk", ["error", "late"], 10, None)
    assert (one.quiet_from, one.quiet_until, one.time_zone) == (22 * 60, 6 * 60 + 30, "America/Denver")
    for path in ("/notices", path_of(one)):
        page = dispatcher.look(path)
        assert "json://***" in page
        assert "hush" not in page
    assert "quiet 22:00 to 06:30 America/Denver" in words(dispatcher.look("/notices"))
    assert audited(world, fleet) == ["notices.add"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "json://127.0.0.1/"}, "is not on the public internet"),
        ({"url": "file:///etc/passwd"}, "The address"),
        ({"url": ""}, "Give the address"),
        ({"kind": []}, "Choose at least one kind"),
        ({"kind": ["earthquake"]}, "Choose at least one kind"),
        ({"after_minutes": "soon"}, "The wait is a number of minutes"),
        ({"after_minutes": "20000"}, "The wait is 0 to 10,080 minutes"),
        ({"quiet_until": ""}, "give both, or neither"),
        ({"quiet_from": "25:00"}, "times from 00:00 to 23:59"),
        ({"time_zone": "Mars/Olympus"}, "No such time zone"),
        ({"name": " "}, "The name is one line"),
        ({"name": "<script>alert(1)</script>", "kind": []}, "Choose at least one kind"),
    ],
    ids=lambda value: "",
)
def test_a_bad_subscription_is_refused_with_a_sentence(
    world: World, fleet: Fleet, dispatcher: Browser, changes: dict[str, Any], said: str
) -> None:
    answer = dispatcher.submit("/notices", **{**FORM, **changes})

    assert answer.status_code == 400
    assert said in words(answer.text)
    assert "<script>alert" not in answer.text
    assert "hush" not in answer.text
    assert stored(world, fleet) == []


def test_a_subscription_is_changed_tried_switched_off_and_removed(
    world: World, fleet: Fleet, dispatcher: Browser
) -> None:
    dispatcher.submit("/notices", **FORM)
    (one,) = stored(world, fleet)
    path = path_of(one)
    seen = seen_on(dispatcher, path)

    changed = {**FORM, "url": "", "kind": [need.kind for need in COMPANY_NEEDS], "quiet_from": "", "quiet_until": ""}
    assert dispatcher.submit(f"{path}/change", **changed, seen=seen).status_code == 303
    (one,) = stored(world, fleet)
    assert (one.kinds, one.quiet_from, one.channel) == ([need.kind for need in COMPANY_NEEDS], None, "json")
    assert dispatcher.submit(f"{path}/change", **FORM, seen=seen).status_code == 409, "it is another one by now"
    assert stored(world, fleet) == [one]
    changed["seen"] = seen_on(dispatcher, path)
    assert dispatcher.submit(f"{path}/change", **{**changed, "kind": []}).status_code == 400

    assert dispatcher.submit(f"{path}/test").status_code == 303
    assert 'Acme: a test of "Night desk"' in words(dispatcher.look(path))
    with world.database.transaction() as connection:
        (notice,) = notices_of(connection, fleet.company_id)
    assert (notice.part, notice.kind) == ("test", "test")

    assert dispatcher.submit(f"{path}/disable").status_code == 303
    assert dispatcher.submit(f"{path}/test").status_code == 409
    assert dispatcher.submit(f"{path}/enable").status_code == 303
    assert dispatcher.submit(f"{path}/remove").status_code == 303
    assert stored(world, fleet) == []
    done = ["add", "change", "test", "disable", "enable", "remove"]
    assert audited(world, fleet) == [f"notices.{one}" for one in done]
    assert "removed" in words(world.browser(Role.OWNER, fleet).look("/notices")), "an owner sees what was sent"


def test_a_persons_own_subscription_is_for_that_person_and_the_owners(
    world: World, fleet: Fleet, dispatcher: Browser
) -> None:
    dispatcher.submit("/notices", **FORM, own="yes")
    (mine,) = stored(world, fleet)
    assert mine.user_id is not None
    colleague, owner = world.browser(Role.DISPATCHER, fleet), world.browser(Role.OWNER, fleet)

    assert "Night desk" in dispatcher.look("/notices")
    assert "Night desk" in owner.look("/notices")
    assert "Night desk" not in colleague.look("/notices")
    colleague.look(path_of(mine), status=404)
    for action in ("change", "test", "disable", "remove"):
        assert colleague.submit(f"{path_of(mine)}/{action}", **FORM).status_code == 404
    owner.look(path_of(mine))
    assert owner.submit(f"{path_of(mine)}/remove").status_code == 303


def test_an_operators_subscription_is_the_companys(world: World, fleet: Fleet) -> None:
    """Operators belong to no company, and are not moved with one."""
    operator = world.browser(Role.OPERATOR, fleet)
    operator.look("/notices")
    assert operator.submit("/notices", **FORM, own="yes").status_code == 303
    (one,) = stored(world, fleet)
    assert one.user_id is None


def test_operators_are_told_of_what_is_urgent_in_the_whole_service(world: World, fleet: Fleet) -> None:
    operator = world.browser(Role.OPERATOR)
    page = operator.look("/operator-notices")
    assert "Redis does not answer" in page
    urgent = {**FORM, "name": f"On call {fleet.company_id}", "kind": ["unserved"], "minutes_unserved": "3"}
    assert "Choose at least one kind" in words(operator.submit("/operator-notices", **FORM).text)
    assert "a number of minutes" in words(
        operator.submit("/operator-notices", **urgent | {"minutes_unserved": "x"}).text
    )
    path = operator.submit("/operator-notices", **urgent).headers["location"].partition("?")[0]
    assert "No worker serves a queue: 3 min" in words(operator.look("/operator-notices"))
    for action in ("test", "change", "disable"):
        assert operator.submit(f"{path}/{action}", **urgent, seen=seen_on(operator, path)).status_code == 303
    assert "Fuelroute: a test of" in operator.look(path)
    assert stored(world, fleet) == [], "it is no company's"
    for role in (Role.OWNER, Role.DISPATCHER):
        world.browser(role, fleet).look("/operator-notices", status=404)
        world.browser(role, fleet).look(path.removeprefix("/operator-"), status=404)
    world.browser(Role.OPERATOR, fleet).look(path.replace("operator-notices", "notices"), status=404)
    assert operator.submit(f"{path}/remove").headers["location"] == "/operator-notices?done=removed"
    assert audited(world, fleet) == [], "nor is the entry in the audit log"


def test_viewers_do_not_see_the_page_and_change_nothing(world: World, fleet: Fleet) -> None:
    with world.database.transaction() as connection:
        one = subscribe(connection, fleet.company_id)
    viewer = world.browser(Role.VIEWER, fleet)
    assert "/notices" not in viewer.look("/overview")
    viewer.look("/notices", status=404)
    viewer.look(path_of(one), status=404)
    for address in ("/notices", *(f"{path_of(one)}/{action}" for action in ("change", "test", "disable", "remove"))):
        assert viewer.submit(address, **FORM).status_code == 403
    assert stored(world, fleet) == [one]
