import pytest


class Clock:
    """A monotonic clock that a test moves."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()
