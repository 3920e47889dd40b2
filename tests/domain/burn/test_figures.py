"""The figure of burn says with which mpg a plan is made, and who says so."""

from domain.burn.figures import DEFAULT_MPG, Burn, figure_of


def test_the_record_of_the_vehicle_counts_before_the_default() -> None:
    assert figure_of(7.1) == Burn(7.1, "declared")
    assert figure_of(None) == Burn(DEFAULT_MPG, "default")


def test_a_figure_that_takes_the_place_of_another_says_so() -> None:
    measured = Burn(5.64, "measured", instead_of_mpg=6.5)
    assert measured.in_words == "5.6 mpg instead of 6.5, from the levels of this trip"
    assert measured.document() == {
        "mpg": 5.64,
        "kind": "measured",
        "text": "5.6 mpg instead of 6.5, from the levels of this trip",
        "instead_of_mpg": 6.5,
    }
