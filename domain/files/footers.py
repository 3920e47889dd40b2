"""Tells lines of a report from the rows of its table: totals, page numbers, rules of dashes."""

import re
from collections.abc import Sequence

_THINGS = (
    r"(?:routes|loads|stops|rows|records|trips|orders|shipments|miles|lines|entries|vehicles|trucks|tractors|units"
    r"|assets|drivers|employees|stations|stores|locations|items|transactions)"
)
_TOTAL = re.compile(
    rf"(?:grand |sub[ -]?)?totals?(?: (?:number )?(?:of )?{_THINGS})?\s*[:=]?\s*[\d,.]*"
    rf"|(?:number of |count of )?{_THINGS}(?: count)?\s*[:=]\s*[\d,.]+"
    rf"|[\d,]+ {_THINGS}(?: in total| total| exported)?\.?",
    re.ASCII | re.IGNORECASE,
)
_ALONE = re.compile(
    r"page \d+(?: (?:of|/) \d+)?|(?:generated|printed|exported|created) (?:by|on|at)\b.*|run date\b.*"
    r"|report (?:date|generated|printed)\b.*|[-*= ]*end of (?:report|file|list)\b.*",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_MOST_CHARACTERS = 200
"""Longer texts are not looked at: the patterns try each division of their spaces, and hold up the process meanwhile."""

_NUMBER = re.compile(r"[\d,.]+")
_RULE = re.compile(r"[-=_*]{3,}")


def is_line_alone(texts: Sequence[str]) -> bool:
    """True for the texts of a row with a single one, such as `Page 1 of 2`."""
    return len(texts) == 1 and len(texts[0]) <= _MOST_CHARACTERS and _ALONE.fullmatch(texts[0]) is not None


def is_total(texts: Sequence[str]) -> bool:
    """True for the texts of a row of totals: a word for it, and numbers."""
    if max(map(len, texts)) > _MOST_CHARACTERS:
        return False
    first, *others = texts
    return bool(_TOTAL.fullmatch(first)) and all(_NUMBER.fullmatch(one) or _TOTAL.fullmatch(one) for one in others)


def is_rule_of_dashes(texts: Sequence[str]) -> bool:
    """True for a rule of dashes, as programs for databases draw one below the names of the columns."""
    return all(map(_RULE.fullmatch, texts))
