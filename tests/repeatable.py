"""hypothesis draws the same examples, whatever else has been loaded."""

from hypothesis.internal.conjecture import providers


def draw_the_same_examples() -> None:
    """hypothesis also draws the numbers in the code of all modules loaded by then: after other tests, other
    examples."""
    providers._get_local_constants = lambda: providers._local_constants
