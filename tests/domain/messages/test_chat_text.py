import pytest

from domain.messages.chat_text import for_chat, room_at_gateway
from domain.messages.message_text import fitted


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("*A* __b__ ~~c~~ `d` ||e||", r"\*A\* \_\_b\_\_ \~\~c\~\~ \`d\` \|\|e\|\|"),
        ("[free](https://evil.example/)", r"\[free](https://evil.example/)"),
        ("<#123> <t:1:R> \\*", r"\<#123> \<t:1:R> \\\*"),
        ("# head\n> quote\nNo. #7 > 6", "\\# head\n\\> quote\nNo. #7 > 6"),
        ("@everyone @here <@123> <@&9>", "@\u200beveryone @\u200bhere \\<@\u200b123> \\<@\u200b&9>"),
        (
            "https://fuel.example/d/a_b-c_d https://x/@everyone",
            "https://fuel.example/d/a_b-c_d https://x/@\u200beveryone",
        ),
        ("Dock @ 5, Love's #763 (I-80 & US 30)", "Dock @ 5, Love's #763 (I-80 & US 30)"),
    ],
)
def test_a_name_is_no_markdown_and_mentions_nobody_in_discord(name: str, written: str) -> None:
    assert for_chat(name, "discord") == written


@pytest.mark.parametrize("channel", ["rocket", "rockets", "tgram", "zulip"])
def test_a_name_mentions_nobody_in_a_chat_whose_markup_apprise_escapes(channel: str) -> None:
    assert for_chat("@all @**all** _A_", channel) == "@\u200ball @\u200b**all** _A_"


@pytest.mark.parametrize("channel", ["twilio", "mailto", "json", "slack", "samsara"])
def test_other_texts_stay_as_they_are(channel: str) -> None:
    assert for_chat("@all _A_", channel) == "@all _A_"


def test_a_message_that_is_too_long_for_discord_with_its_escapes_ends_after_a_fuel_stop() -> None:
    stops = [
        line for number in range(1, 21) for line in (f"{number}. {'A_1 ' * 20}", "Mile 5: 9 gal", "https://map/a_b")
    ]
    text = "\n".join(["Fuel plan for A", "To: B", *stops, "20 fuel stops", "Message msg_1"])
    sent = for_chat(fitted(text, room_at_gateway(text, "discord")), "discord").replace("\n", "\r\n", 1)
    assert len(sent) <= 2_000
    assert sent.endswith("Ask dispatch for the others.\nMessage msg\\_1")
    assert fitted(text, room_at_gateway(text, "mmost")) == text


def test_a_message_of_just_the_length_that_discord_takes_is_whole() -> None:
    text = "Fuel plan\n" + "x" * 1_989
    assert fitted(text, room_at_gateway(text, "discord")) == text
    assert len(fitted(text + "x", room_at_gateway(text + "x", "discord"))) == 1_999


@pytest.mark.parametrize(
    ("channel", "plain", "unicode"),
    [
        ("twilio", 1_600, 1_600),
        ("sns", 1_600, 1_600),
        ("plivo", 1_600, 737),
        ("telnyx", 1_530, 670),
        ("sinch", 2_000, 2_000),
        ("msgbird", 1_377, 603),
        ("tgram", 4_096, 4_096),
        ("pover", 1_024, 1_024),
    ],
)
def test_a_plan_that_is_too_long_for_a_gateway_goes_out_without_its_last_fuel_stops(
    channel: str, plain: int, unicode: int
) -> None:
    """Each of these gateways refuses a longer text."""
    for name, most in (("Plaza", plain), ("Love`s", unicode), ("ਪਲਾਜ਼ਾ", unicode)):
        stops = [
            line
            for number in range(1, 30)
            for line in (f"{number}. {name} {number}", f"Mile {number}: 100.0 gal", f"https://map/{'a' * 150}")
        ]
        text = "\n".join(["Fuel plan for A", "To: B", *stops, "29 fuel stops", "Message msg_1"])
        sent = fitted(text, room_at_gateway(text, channel)).replace("\n", "\r\n", 1)

        assert most - 400 < len(sent) <= most
        assert sent.endswith("Ask dispatch for the others.\nMessage msg_1")
        assert f"1. {name} 1\nMile 1: 100.0 gal" in sent


@pytest.mark.parametrize("channel", ["plivo", "telnyx", "msgbird", "clicksend"])
def test_characters_that_a_text_message_has_in_two_count_as_two(channel: str) -> None:
    assert room_at_gateway("Plaza [24 h]", channel) == room_at_gateway("Plaza 24 h", channel) - 2
    assert room_at_gateway("Plaza 🚛", channel) == room_at_gateway("Plaza é", channel) - 1


def test_clicksend_counts_a_line_end_as_two_characters() -> None:
    text = "Fuel plan for A\n" + "\n".join(f"{number}. {'x' * 49}" for number in range(10, 32)) + "\nMessage msg_1"
    assert len(text) < 1_224 < len(text.replace("\n", "\r\n"))

    sent = fitted(text, room_at_gateway(text, "clicksend")).replace("\n", "\r\n")

    assert len(sent) <= 1_224
    assert sent.endswith("Message msg_1")


def test_an_ordinary_plan_is_whole_in_a_text_message() -> None:
    text = "Fuel plan\n" + "x" * 1_500
    for channel in ("twilio", "sns", "plivo", "telnyx", "tgram"):
        assert fitted(text, room_at_gateway(text, channel)) == text
