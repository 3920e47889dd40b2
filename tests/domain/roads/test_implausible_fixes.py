"""A fix that a truck could not reach is implausible, and a tracker that is elsewhere does not hide the truck."""

from domain.roads import Point
from domain.roads.implausible_fixes import implausible_fixes, plausible_fixes
from domain.telematics.arrivals import Fix
from tests.domain.telematics.test_arrivals import CUSTOMER, DEPOT, PORT, at, fix


def test_one_wild_fix_is_implausible_and_does_not_shut_out_the_true_ones() -> None:
    fixes = [fix(0, DEPOT), fix(1, PORT), fix(2, DEPOT), fix(3, DEPOT)]

    assert implausible_fixes(fixes) == {at(1)}


def test_two_agreeing_fixes_far_away_are_still_implausible() -> None:
    fixes = [fix(0, DEPOT), fix(1, PORT), fix(2, PORT), fix(3, DEPOT)]

    assert implausible_fixes(fixes) == {at(1), at(2)}


def test_three_agreeing_fixes_far_away_are_believed() -> None:
    fixes = [fix(0, DEPOT), fix(1, PORT), fix(2, PORT), fix(3, PORT)]

    assert implausible_fixes(fixes) == set()


def test_three_fixes_that_contradict_each_other_are_not_believed() -> None:
    fixes = [fix(0, DEPOT), fix(1, PORT), fix(2, CUSTOMER), fix(3, PORT)]

    assert implausible_fixes(fixes) == {at(1), at(2), at(3)}


def test_a_long_silence_makes_a_far_fix_plausible() -> None:
    assert implausible_fixes([fix(0, DEPOT), fix(60 * 12, PORT)]) == set()


def test_the_accuracy_of_both_fixes_is_taken_off_their_distance() -> None:
    jumping = [fix(0, DEPOT), fix(1 / 60, DEPOT, 140)]
    blurred = [fix(0, DEPOT, accuracy=50), fix(1 / 60, DEPOT, 140, accuracy=50)]

    assert implausible_fixes(jumping) == {at(1 / 60)}
    assert implausible_fixes(blurred) == set()


def fixes_in_turns(*places: Point) -> list[Fix]:
    return [fix(minute, place) for minute, place in enumerate(places)]


def test_a_second_tracker_that_is_elsewhere_does_not_hide_one_that_sends_twice_as_often() -> None:
    """Whichever of them begins: its fixes are never three in a row."""
    wrong = implausible_fixes(fixes_in_turns(PORT, *[DEPOT, DEPOT, PORT] * 3))
    assert wrong == {at(3), at(6), at(9)}
    assert implausible_fixes(fixes_in_turns(DEPOT, DEPOT, *[PORT, DEPOT, DEPOT] * 3)) == {at(2), at(5), at(8)}


def test_of_two_trackers_that_send_equally_often_the_first_is_believed() -> None:
    assert implausible_fixes(fixes_in_turns(*[DEPOT, PORT] * 5)) == {at(minute) for minute in (1, 3, 5, 7, 9)}


def test_fixes_of_the_sandbox_are_all_plausible() -> None:
    """Simulated time may start over, so they may be of two drives."""
    fixes = fixes_in_turns(DEPOT, PORT, DEPOT)
    assert plausible_fixes(fixes, "live") == [fixes[0], fixes[2]]
    assert plausible_fixes(fixes, "sandbox") == fixes
