"""Towns are found by their names as people write them, and none is guessed."""

import pytest

from domain.previews.towns import UnknownTown, default_towns


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Joliet, IL", "Joliet, IL"),
        ("joliet il", "Joliet, IL"),
        ("Joliet, Illinois", "Joliet, IL"),
        ("St. Louis, MO", "St. Louis, MO"),
        ("Saint Louis MO 63101", "St. Louis, MO"),
        ("Ft Worth, TX", "Fort Worth, TX"),
        ("New York, NY", "New York City, NY"),
        ("Kansas City, MO 64106", "Kansas City, MO"),
        ("Québec, QC", "Québec, QC"),
        ("Winnipeg, Canada", "Winnipeg, MB"),
        ("Los Angeles, CA", "Los Angeles, CA"),
        ("Nuevo Laredo, Mexico", "Nuevo Laredo, TAM"),
        ("Joliet, IL, USA", "Joliet, IL"),
    ],
)
def test_a_town_is_found_as_people_write_it(text: str, label: str) -> None:
    assert default_towns().find(text).label == label


def test_its_place_is_near_enough_for_a_road() -> None:
    place = default_towns().find("Joliet, IL").place
    assert (place.latitude, place.longitude) == pytest.approx((41.525, -88.083), abs=0.01)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Springfield", "fits 20 towns, such as Springfield, MO; .*: add the state"),
        ("Saint-Henri, QC", "fits 2 towns, .*: give latitude and longitude"),
        ("Jolliet, IL", "did you mean Joliet, IL"),
        ("Joliet, TX", "did you mean Joliet, IL"),
        ("Xyzzy", "give its latitude and longitude"),
        ("", "No town '' is known"),
        (" ,TX", "No town"),
        ("\x1b[31m", "No town"),
    ],
)
def test_a_town_that_is_not_clear_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(UnknownTown, match=why):
        default_towns().find(text)
