"""The amount paid is the one after discounts, and the other columns of the row have to agree with it."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.files.csvfiles import ImportReport
from domain.fills.card_files import AMOUNT_DOUBT, QUANTITY_DOUBT, FileFill, open_fill_file
from domain.fills.paid import Paid, ToldFigures, paid_for
from domain.fills.profiles import card_profile
from tests.domain.csv_files import CsvFile
from tests.domain.fills.cards import EFS_HEADER, NOW, efs

CASES = Path(__file__).parents[2] / "cases" / "fills"
COMDATA = (CASES / "comdata.csv").read_text()


def read(path: Path, profile: str) -> list[FileFill]:
    report = ImportReport()
    with open_fill_file(path, card_profile(profile), report, now=NOW) as file:
        fills = list(file.fills)
    assert report.rejected == []
    return fills


def comdata(tmp_path: Path, *changes: tuple[str, str]) -> list[FileFill]:
    """The fills of Comdata's case with some cells changed."""
    text = COMDATA
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "comdata.csv"
    path.write_text(text)
    return read(path, "comdata")


def figures(fills: list[FileFill]) -> list[tuple[object, ...]]:
    return [(one.line, one.fuel, one.gallons, one.paid_cents, one.doubts) for one in fills]


def test_comdata_pays_the_net_cost_of_each_fuel(tmp_path: Path) -> None:
    assert figures(comdata(tmp_path)) == [
        (2, "tractor", 140.14, 43067, ()),
        (3, "tractor", 206.29, 59367, ()),
        (3, "other", 8.24, 3453, ()),
    ]


def test_number_1_diesel_is_tractor_fuel_and_reefer_fuel_stands_apart(tmp_path: Path) -> None:
    names, first, *_ = COMDATA.splitlines()
    row = dict(zip(names.split(","), first.replace('"DOE,JAN"', "X").split(","), strict=True))
    row |= {"Number of Tractor Gallons": "150.14", "Number 1 Fuel Gallons": "10", "Number 1 Fuel Cost": "$40.00"}
    row |= {"#1 Diesel Cost Net Cost": "$37.50", "Cost of Tractor Fuel": "534.56", "Rebate Amount": "$71.39"}
    row |= {"Number of Reefer Gallons": "20", "Cost of Reefer Fuel": "$60.00", "Reefer Cost  Net Cost": "$55.00"}
    path = tmp_path / "comdata.csv"
    path.write_text("\n".join([",".join(row), ",".join(row.values())]) + "\n")
    assert figures(read(path, "comdata")) == [(2, "tractor", 150.14, 46817, ()), (2, "reefer", 20.0, 5500, ())]


def test_without_net_columns_nothing_tells_which_of_several_fuels_a_rebate_is_for(csv_file: CsvFile) -> None:
    """Each counted at its amount before the rebate, and nobody was asked."""
    columns = "Date,Unit,State,Diesel Gallons,Diesel Cost,DEF Gallons,DEF Cost,Rebate Amount"
    path = csv_file(columns, "11/21/2026,7,IL,90,360,5,20,36", "11/22/2026,7,IL,90,360,5,20,0")
    assert [one.doubts for one in read(path, "generic")] == [(AMOUNT_DOUBT,), (AMOUNT_DOUBT,), (), ()]


@pytest.mark.parametrize(("rebate", "doubts"), [("25.00", ()), ("-25.00", ()), ("-0.25", (AMOUNT_DOUBT,))])
def test_a_rebate_of_either_sign_is_one_of_all_gallons_if_it_is_above_the_price(
    csv_file: CsvFile, rebate: str, doubts: tuple[str, ...]
) -> None:
    path = csv_file("Date,Unit,State,Diesel Gallons,Diesel Price,Rebate Amount", f"11/21/2026,7,IL,100,3.80,{rebate}")
    assert [one.doubts for one in read(path, "generic")] == [doubts]


def test_without_net_columns_the_rebate_is_taken_off_the_only_fuel(tmp_path: Path) -> None:
    fills = comdata(tmp_path, ("#2 Diesel Cost Net Cost", "x"), ("#2 Diesel,#1 Diesel,", "y,z,"))
    assert figures(fills)[0] == (2, "tractor", 140.14, 43067, ())


@pytest.mark.parametrize(
    "change",
    [
        ("$430.67000", "$494.56000"),  # no rebate taken off
        ("$63.89", "$10.00"),  # another rebate than cost less net cost
        ("$3.07300", "$2.07300"),  # another net price
    ],
)
def test_columns_of_comdata_that_contradict_each_other_wait_for_a_person(
    tmp_path: Path, change: tuple[str, str]
) -> None:
    first, *others = comdata(tmp_path, change)
    assert first.doubts == (AMOUNT_DOUBT,)
    assert [one.doubts for one in others] == [(), ()]


def test_gallons_of_comdata_that_do_not_add_up_wait_for_a_person(tmp_path: Path) -> None:
    assert comdata(tmp_path, (",S,140.14,", ",S,240.14,"))[0].doubts == (QUANTITY_DOUBT,)


@pytest.mark.parametrize(
    ("changes", "paid_cents", "is_doubtful"),
    [
        ({}, 34550, False),
        ({"amount": "365.50"}, 34550, False),  # the amount before the discount, as all other columns say
        ({"amount": "345.52"}, 34552, False),  # rounding
        ({"amount": "300.00"}, 30000, True),
        ({"amount": "365.50", "price": ""}, 36550, True),
        ({"amount": ""}, 34550, False),
        ({"amount": "", "price": ""}, 34550, False),
        ({"amount": "", "price": "", "disc_amt": ""}, 36550, False),
        ({"amount": "", "disc_amt": "50.00"}, 31550, True),
        ({"disc_amt": "(20.00)"}, 34550, False),
        ({"qty": "-100.00", "amount": "-345.50", "disc_amt": "-20.00"}, -34550, False),
        ({"qty": "-100.00", "amount": "-345.50"}, -34550, False),
        ({"qty": "378.54", "price": "3.455", "unit_price": ""}, 34550, True),  # litres in a column of gallons
    ],
)
def test_the_amount_agrees_with_price_quantity_and_discount(
    tmp_path: Path, changes: dict[str, str], paid_cents: int, is_doubtful: bool
) -> None:
    path = tmp_path / "efs.csv"
    path.write_text("\n".join([EFS_HEADER, efs(**changes)]) + "\n")
    (fill,) = read(path, "efs")
    assert (fill.paid_cents, fill.doubts) == (paid_cents, (AMOUNT_DOUBT,) if is_doubtful else ())


MONEY = st.integers(min_value=1, max_value=500_000)


@given(MONEY, MONEY, st.integers(min_value=1, max_value=50_000), st.sampled_from([1, -1]))
def test_an_amount_without_contradiction_is_that_after_the_discount(
    net_cents: int, less_cents: int, tenths: int, sign: int
) -> None:
    told = ToldFigures(
        sign * Decimal(tenths) / 10,
        net_amount=sign * Decimal(net_cents) / 100,
        gross_amount=sign * Decimal(net_cents + less_cents) / 100,
        discount=Decimal(less_cents) / 100,
    )
    assert paid_for(told) == Paid(sign * Decimal(net_cents) / 100, is_doubtful=False)
    assert paid_for(told._replace(net_amount=None)) == Paid(sign * Decimal(net_cents) / 100, is_doubtful=False)
