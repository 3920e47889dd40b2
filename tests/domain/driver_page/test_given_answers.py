"""A driver's answer is read from a form: what cannot be is refused in words, and nothing fails."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.driver_page.given_answers import ImpossibleAnswer, believed_time, read_given_answer
from domain.ids import new_id, shown_id
from domain.languages.units import Units
from domain.lifecycle import AnswerKind, RefusalReason

PLAN = new_id()
FIELDS = ("key", "plan", "stop", "kind", "reason", "volume", "percent", "price", "at", "sent", "latitude", "longitude")


def form(**fields: str) -> dict[str, str]:
    return {"key": "k" * 16, "plan": shown_id("pln", PLAN), "stop": "1", "kind": "going", **fields}


def test_an_answer_names_its_plan_and_the_stop() -> None:
    read = read_given_answer(form())
    assert (read.plan_id, read.sequence, read.kind, read.reason) == (PLAN, 1, AnswerKind.GOING, None)


def test_a_form_that_is_sent_again_with_its_key_is_the_same_answer_only_if_it_says_the_same() -> None:
    first = read_given_answer(
        form(kind="fueled", volume="97.5", at="2026-11-27T12:00:00Z", latitude="41", longitude="-86")
    )
    again = read_given_answer(form(kind="fueled", volume="97.5"))
    corrected = read_given_answer(form(kind="fueled", volume="79.5"))
    refused = {read_given_answer(form(kind="refused", reason=reason)).key for reason in RefusalReason}
    assert first.key == again.key
    assert len({again.key, corrected.key, *refused}) == 2 + len(RefusalReason)
    assert read_given_answer(form(key="another-key")).key != read_given_answer(form()).key


def test_a_refusal_has_a_reason_and_no_purchase() -> None:
    read = read_given_answer(form(kind="refused", reason="no_parking", volume="100"))
    assert read.reason is RefusalReason.NO_PARKING
    assert read.gallons is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, (None, None, None)),
        ({"volume": "97,5", "price": " 3.459 "}, (97.5, None, 3.459)),
        ({"percent": "80"}, (None, 80.0, None)),
    ],
)
def test_gallons_level_and_price_of_a_purchase_may_be_missing(written: dict[str, str], expected: Any) -> None:
    read = read_given_answer(form(kind="fueled", **written))
    assert (read.gallons, read.fill_percent, read.price_per_gallon) == expected


def test_a_driver_in_canada_writes_litres_and_canadian_dollars() -> None:
    read = read_given_answer(form(kind="fueled", volume="378,5", price="1.69"), Units("CA", per_usd=1.4))
    assert read.gallons == pytest.approx(100, abs=0.02)
    assert read.price_per_gallon == pytest.approx(4.57, abs=0.001)


def test_a_price_in_money_without_a_rate_of_exchange_is_not_guessed() -> None:
    read = read_given_answer(form(kind="fueled", volume="378.5", price="1.69"), Units("CA", per_usd=None))

    assert read.gallons == pytest.approx(100, abs=0.1)
    assert read.price_per_gallon is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": ""},
        {"kind": "refused"},
        {"kind": "refused", "reason": "tired"},
        {"key": "short"},
        {"key": "k" * 65},
        {"plan": "pln_1"},
        {"stop": "-1"},
        {"stop": "\N{ARABIC-INDIC DIGIT ONE}"},
        {"kind": "fueled", "volume": "0"},
        {"kind": "fueled", "volume": "1e9"},
        {"kind": "fueled", "volume": "1,000.5"},
        {"kind": "fueled", "volume": "nan"},
        {"kind": "fueled", "percent": "101"},
        {"kind": "fueled", "price": "0.01"},
        {"kind": "fueled", "price": "345.9"},
    ],
)
def test_a_bad_value_is_refused_in_a_sentence(wrong: dict[str, str]) -> None:
    with pytest.raises(ImpossibleAnswer) as refused:
        read_given_answer(form(**wrong))
    assert str(refused.value).endswith(".")


@given(st.dictionaries(st.sampled_from(FIELDS), st.text(max_size=30)))
def test_no_form_fails_in_another_way(fields: dict[str, str]) -> None:
    with suppress(ImpossibleAnswer):
        read_given_answer({**form(), **fields})


@pytest.mark.parametrize(
    ("at", "latitude", "longitude"),
    [("yesterday", "91", "0"), ("2026-11-26T10:00:00", "nan", "1"), ("9999-12-31T23:59:59-14:00", "", "5")],
)
def test_a_time_and_a_place_that_cannot_be_are_left_away(at: str, latitude: str, longitude: str) -> None:
    read = read_given_answer(form(at=at, latitude=latitude, longitude=longitude))
    assert (read.told_at, read.place) == (None, None)


NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SINCE = NOW - 60 * MINUTE


@pytest.mark.parametrize(
    ("told", "sent", "believed"),
    [
        (NOW - MINUTE, None, NOW - MINUTE),
        (NOW + MINUTE, None, NOW + MINUTE),
        (NOW + 6 * MINUTE, None, None),
        (SINCE - MINUTE, None, None),
        (NOW - 190 * MINUTE, NOW - 180 * MINUTE, NOW - 10 * MINUTE),
        (NOW + 190 * MINUTE, NOW + 200 * MINUTE, NOW - 10 * MINUTE),
        (NOW - 61 * MINUTE, NOW, None),
        (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), None),
        (NOW - MINUTE, NOW - 2 * MINUTE, NOW - MINUTE),
    ],
)
def test_the_time_that_an_answer_waited_counts_whatever_the_phone_s_clock_says(
    told: datetime, sent: datetime | None, believed: datetime | None
) -> None:
    written = {"at": told.isoformat(), **({"sent": sent.isoformat()} if sent is not None else {})}
    assert believed_time(read_given_answer(form(**written)), since=SINCE, now=NOW) == believed
