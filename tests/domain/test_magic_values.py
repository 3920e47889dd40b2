"""The magic values of the sandbox: each in the table is known, and ordinary names are none."""

from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

import domain.magic_values
from domain.database.connections import Connection
from domain.magic_values import (
    DRIVEN,
    MAGIC_VALUES,
    UNMAPPED,
    DriveWish,
    drive_wish,
    magic_error_code,
    named,
    waits_for_sweep,
)

_ORDINARY = st.text(max_size=30).filter(lambda text: not text.startswith("SANDBOX-"))


def wish(speedup: int | None = None, **more: bool) -> DriveWish:
    return DriveWish(speedup, **{"leaves_road": False, "is_low_on_fuel": False, "is_empty": False, **more})


@pytest.mark.parametrize(
    ("reference", "external_id", "expected"),
    [
        ("SANDBOX-DRIVE", "LOAD-1", wish()),
        (None, "SANDBOX-DRIVE-300X", wish(300)),
        ("SANDBOX-DRIVE-300x-17", "LOAD-1", wish(300)),
        ("SANDBOX-DRIVE-17", "LOAD-1", wish()),
        ("SANDBOX-DRIVE-99999X", "LOAD-1", wish(3600)),
        ("SANDBOX-DRIVE-0X", "LOAD-1", wish(1)),
        ("SANDBOX-DRIVE-2X", "SANDBOX-LOWFUEL-1", wish(2, is_low_on_fuel=True)),
        ("SANDBOX-OFFROUTE", "LOAD-1", wish(leaves_road=True)),
        ("SANDBOX-EMPTY", "LOAD-1", wish(is_empty=True)),
        ("SANDBOX-PLANNED-9X", "LOAD-1", wish(9)),
        ("SANDBOX-DRIVER", "LOAD-1", None),
        ("SANDBOX-DRIVE_1", "LOAD-1", None),
        ("sandbox-drive", "LOAD-1", None),
        (" SANDBOX-DRIVE", "A-SANDBOX-DRIVE", None),
    ],
)
def test_names_ask_for_a_drive(reference: str | None, external_id: str, expected: DriveWish | None) -> None:
    assert drive_wish(reference, external_id) == expected


@given(_ORDINARY, _ORDINARY)
def test_ordinary_names_ask_for_nothing(reference: str, external_id: str) -> None:
    assert drive_wish(reference, external_id) is None
    assert magic_error_code(external_id) is None
    assert not waits_for_sweep(reference, external_id)


def test_each_value_of_the_table_is_known() -> None:
    def is_known(value: str) -> bool:
        in_sql = value in (UNMAPPED, "SANDBOX-FUTURE", "SANDBOX-IMPORT-ERROR")
        return in_sql or bool(drive_wish(value, "x") or magic_error_code(value) or waits_for_sweep(value, "x"))

    assert [one.value for one in MAGIC_VALUES if not is_known(one.value)] == []
    assert all(one.effect.endswith(".") for one in MAGIC_VALUES)


@pytest.mark.parametrize(
    "name", ["SANDBOX-DRIVE", "SANDBOX-EMPTY-1", "SANDBOX-DRIVER", "SANDBOX-DRIVE\u00e9", "SANDBOX-OFFROUTE_", "", "x"]
)
def test_python_and_postgresql_know_the_same_names(connection: Connection, name: str) -> None:
    (found,) = connection.execute(
        f"SELECT {named(DRIVEN)} FROM (SELECT %s::text AS reference, %s::text AS external_id) AS r",
        (name, uuid4().hex),
    ).fetchone() or (None,)
    assert found is (drive_wish(name, "x") is not None)


def test_the_readme_of_the_sandbox_has_the_table() -> None:
    readme = Path(domain.magic_values.__file__).with_name("sandbox") / "README.md"
    rows = [line for line in readme.read_text(encoding="utf-8").splitlines() if "`SANDBOX-" in line and line[0] == "|"]
    assert [(value.strip(" `"), effect.strip()) for _, _, value, effect, _ in (row.split("|") for row in rows)] == [
        (one.value, one.effect) for one in MAGIC_VALUES
    ]
