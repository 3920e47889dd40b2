import pytest

from domain.messages.chat_text import for_chat


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
