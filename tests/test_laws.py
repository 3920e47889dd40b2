"""Laws beside the threads of the process in which they run."""

import random
from threading import Thread

from hypothesis import given, settings
from hypothesis import strategies as st


def connect_elsewhere(number: int) -> int:
    """Does what a pool's thread does when it opens a connection: it draws how long that one lives."""
    thread = Thread(target=random.random)
    thread.start()
    thread.join()
    return number


@settings(max_examples=5)
@given(st.integers().map(connect_elsewhere))
def test_a_law_is_not_disturbed_by_a_connection_that_a_pool_opens_meanwhile(number: int) -> None:
    assert isinstance(number, int)
