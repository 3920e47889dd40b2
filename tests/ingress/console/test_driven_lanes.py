"""The page Driven lanes shows what the company's trucks have taught, and resets a lane."""

import re
from datetime import UTC, datetime, timedelta

from domain.lifecycle import Role
from tests.domain.driven_lanes.driving import QUICKEST, completed, fixes_along, learn
from tests.ingress.console.conftest import World, words


def test_a_lane_is_shown_and_reset_by_an_owner_of_its_company(world: World) -> None:
    fleet, other = world.new_fleet(), world.new_fleet()
    now = datetime.now(UTC)
    with world.database.transaction() as connection:
        for days in (7, 5, 3):
            assert learn(
                connection, completed(connection, fleet, fleet.live, fixes_along(QUICKEST, now - timedelta(days)))
            )
    owner, stranger, viewer = (
        world.browser(role, one) for role, one in ((Role.OWNER, fleet), (Role.OWNER, other), (Role.VIEWER, fleet))
    )
    page = owner.look("/savings/lanes")
    assert "Joliet terminal → Memphis yard" in words(page)
    assert "the road of these trips" in words(page)
    (lane,) = re.findall(r'name="lane" value="([^"]+)"', page)
    assert "No trip has been read yet" in stranger.look("/savings/lanes")
    assert "No trip has been read yet" in owner.look("/savings/lanes?environment=sandbox")
    assert 'name="lane"' not in viewer.look("/savings/lanes")

    assert stranger.submit("/savings/lanes/reset", lane=lane).status_code == 404
    assert viewer.submit("/savings/lanes/reset", lane=lane).status_code == 403
    assert owner.submit("/savings/lanes/reset", lane="x").status_code == 404
    assert owner.submit("/savings/lanes/reset", lane=lane, environment="sandbox").status_code == 404
    assert "Joliet terminal" in owner.look("/savings/lanes")
    assert owner.submit("/savings/lanes/reset", lane=lane, reason="road works").status_code == 303
    assert "No trip has been read yet" in owner.look("/savings/lanes")
    assert "road works" in words(owner.look("/audit"))
