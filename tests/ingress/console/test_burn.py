"""The page of a vehicle shows its trips and the figure of its plans, and takes the decision on its tank."""

import re
from datetime import UTC, datetime, timedelta

from domain.lifecycle import Role
from tests.domain.burn.trips import driven, learn
from tests.ingress.console.conftest import Fields, World, words


def test_a_vehicle_shows_its_trips_and_the_tank_is_decided_there(world: World) -> None:
    fleet, other = world.new_fleet(time_zone="Pacific/Kiritimati"), world.new_fleet()
    now = datetime.now(UTC)
    with world.database.transaction() as connection:
        connection.execute("UPDATE vehicles SET mpg = 7.2 WHERE company_id = %s", (fleet.company_id,))
        for number, days in enumerate((10, 7, 4)):
            driven(connection, fleet, fleet.live, now - timedelta(days=days), seed=number)
        dead = driven(connection, fleet, fleet.live, now - timedelta(days=1), miles=300, shown=lambda *_: 50.0)
        connection.execute("UPDATE routes SET external_id = 'DEAD' WHERE id = %s", (dead,))
        learn(connection, fleet, fleet.live, now)
        connection.execute("UPDATE learned_burns SET tank_gallons = 150, tank_fills = 7")
    address = f"/vehicles/one?id={fleet.shown_trucks[0]}"
    dispatcher, viewer, stranger = (
        world.browser(role, of)
        for role, of in ((Role.DISPATCHER, fleet), (Role.VIEWER, fleet), (Role.DISPATCHER, other))
    )
    page = dispatcher.look(address)
    told = words(page)
    assert re.search(r"Plans are made with 5\.\d mpg instead of 7\.2, from 3 trips of the truck, 2,700 mi", told)
    assert "7.2 are declared: the policy decides which of the two counts" in told
    assert "DEAD" in told
    assert "not believed: its fuel levels show no burn" in told
    assert page.count('<circle class="planned"') == 4, "three trips and the legend"
    ended = re.findall(r"ago ([A-Z][a-z]{2} \d+), \d{4} \d\d:\d\d \+14", told)
    drawn = re.findall(r">([A-Z][a-z]{2} \d+)</text>", page)
    assert drawn
    assert set(drawn) <= set(ended), "the days of the picture are those of the table"
    assert "7 fills of fuel cards agree on a tank of 150 gal" in told
    assert "No trip of it was completed here yet" in words(dispatcher.look(f"{address}&environment=sandbox"))
    assert "No trip of it" in words(dispatcher.look(f"/vehicles/one?id={fleet.shown_trucks[1]}"))
    assert 'name="decision"' not in viewer.look(address)
    stranger.look(address, status=404)

    take: Fields = {"id": fleet.shown_trucks[0], "gallons": "150.0", "decision": "take"}
    assert viewer.submit("/vehicles/tank", **take).status_code == 403
    stranger.look("/vehicles")
    assert stranger.submit("/vehicles/tank", **take).status_code == 409
    dispatcher.look(address)
    for wrong in ("gallons", "id", "decision"):
        assert dispatcher.submit("/vehicles/tank", **take | {wrong: "x"}).status_code == 404
    assert dispatcher.submit("/vehicles/tank", **take | {"gallons": "151"}).status_code == 409
    assert dispatcher.submit("/vehicles/tank", **take).status_code == 303
    page = dispatcher.look(address)
    assert 'name="fuel_tank_capacity_gallons" value="150"' in re.sub(r"\s+", " ", page)
    assert "agree on a tank" not in words(page)
    assert dispatcher.submit("/vehicles/tank", **take).status_code == 409
