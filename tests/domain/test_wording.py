from decimal import Decimal

import pytest

from domain.wording import dollars_in_words


@pytest.mark.parametrize(
    ("amount", "words"), [(Decimal("1204.5"), "$1,204.50"), (-0.65, "-$0.65"), (Decimal(0), "$0.00")]
)
def test_dollars_have_their_sign_before_them(amount: Decimal | float, words: str) -> None:
    assert dollars_in_words(amount) == words
