"""Pages of drivers that have not changed are kept, within bounds."""

from ingress.driver.kept_pages import KeptPages


class Rendered:
    """Pages of 100 bytes, and how often each was rendered."""

    def __init__(self) -> None:
        self.pages = KeptPages(most_bytes=250)
        self.times: dict[bytes, int] = {}

    def get(self, key: bytes) -> bytes:
        def render() -> tuple[bytes, ...]:
            self.times[key] = self.times.get(key, 0) + 1
            return key * 60, key * 40

        return b"".join(self.pages.get(key, render))


def test_a_page_is_rendered_once_for_each_key() -> None:
    rendered = Rendered()
    assert [rendered.get(b"a"), rendered.get(b"a"), rendered.get(b"b")] == [b"a" * 100, b"a" * 100, b"b" * 100]
    assert rendered.times == {b"a": 1, b"b": 1}


def test_the_pages_that_nobody_has_asked_for_longest_make_room() -> None:
    rendered = Rendered()
    for key in (b"a", b"b", b"a", b"c", b"a", b"b"):
        rendered.get(key)
    assert rendered.times == {b"a": 1, b"b": 2, b"c": 1}


def test_a_page_larger_than_all_that_is_kept_is_shown_all_the_same() -> None:
    pages = KeptPages(most_bytes=10)
    assert pages.get(b"a", lambda: (b"x" * 100,)) == (b"x" * 100,)
    assert pages.get(b"b", lambda: (b"y",)) == (b"y",)
