"""hypothesis draws the same examples, whatever else has been loaded, and in each profile enough of them."""

from hypothesis import settings
from hypothesis.internal.conjecture import providers


def draw_the_same_examples() -> None:
    """hypothesis also draws the numbers in the code of all modules loaded by then: after other tests, other
    examples."""
    providers._get_local_constants = lambda: providers._local_constants


USUAL = 50
"""The examples of a law in the usual profile, unless it says how many it needs to find the faults that it is known
for."""


def examples(usual: int) -> int:
    """The examples of a law that needs more or fewer than others: that many in the usual profile, and in any other in
    proportion to that profile's."""
    assert settings.default is not None
    return usual * settings.default.max_examples // USUAL
