"""The fuel that a product is, by its code and name."""

import pytest

from domain.files.products import Fuel, fuel_of_product


@pytest.mark.parametrize(
    ("item", "fuel"),
    [
        ("ULSD", Fuel.TRACTOR),
        ("Diesel #2", Fuel.TRACTOR),
        ("#1 Diesel", Fuel.TRACTOR),
        ("No. 2", Fuel.TRACTOR),
        ("DSL", Fuel.TRACTOR),
        ("DIESEL FUEL OIL", Fuel.TRACTOR),
        ("Premium Diesel", Fuel.TRACTOR),
        ("Self Service Diesel", Fuel.TRACTOR),
        ("Diesel cash", Fuel.TRACTOR),
        ("ULTRA LOW SULFUR DIESEL", Fuel.TRACTOR),
        ("Biodiesel B20", Fuel.TRACTOR),
        ("ULSD#2", Fuel.TRACTOR),
        ("#2DSL", Fuel.TRACTOR),
        ("ULSD #2 CLEAR", Fuel.TRACTOR),
        ("BIO", Fuel.TRACTOR),
        ("ULSD #2 DYED", Fuel.REEFER),
        ("Diesel clair, taxes incluses", Fuel.TRACTOR),
        ("Diesel tax included", Fuel.TRACTOR),
        ("Diesel, réfrigération", Fuel.REEFER),
        ("Diesel coloré", Fuel.OTHER),
        ("Diesel sans taxe", Fuel.OTHER),
        ("Essence", Fuel.OTHER),
        ("Fluide d'échappement diesel", Fuel.DEF),
        ("Huile diesel", Fuel.OTHER),
        ("Additif diesel", Fuel.OTHER),
        ("Taxe sur diesel", Fuel.OTHER),
        ("RDSL", Fuel.REEFER),
        ("Heating oil", Fuel.OTHER),
        ("DSL OFF RD", Fuel.OTHER),
        ("RUL", Fuel.OTHER),
        ("Anti-gel", Fuel.OTHER),
        ("Reefer Diesel", Fuel.REEFER),
        ("ULSR", Fuel.REEFER),
        ("Diesel - trailer", Fuel.REEFER),
        ("DYED DIESEL", Fuel.REEFER),
        ("DEFD", Fuel.DEF),
        ("Diesel Exhaust Fluid - bulk", Fuel.DEF),
        ("DieselExhaustFluid", Fuel.DEF),
        ("DSL EXH FLUID", Fuel.DEF),
        ("Farm diesel", Fuel.OTHER),
        ("OFF-ROAD DIESEL", Fuel.OTHER),
        ("DIESEL TAX EXEMPT", Fuel.OTHER),
        ("Diesel, non-taxable", Fuel.OTHER),
        ("NONTAX DSL", Fuel.OTHER),
        ("DIESEL NO TAX", Fuel.OTHER),
        ("ULS RED", Fuel.OTHER),
        ("DIESEL DYD", Fuel.REEFER),
        ("Premium Diesel with Additive", Fuel.TRACTOR),
        ("ULSD w/ additives", Fuel.TRACTOR),
        ("Diesel conditioner", Fuel.OTHER),
        ("Diesel with conditioner", Fuel.TRACTOR),
        ("BioUlsdOff", Fuel.OTHER),
        ("DSL EXHST FLUID", Fuel.DEF),
        ("APU Diesel", Fuel.OTHER),
        ("Unleaded Regular", Fuel.OTHER),
        ("Premium", Fuel.OTHER),
        ("Diesel additive", Fuel.OTHER),
        ("SCLE", Fuel.OTHER),
        ("Cash Advance", Fuel.OTHER),
        ("DEFENDER", Fuel.UNKNOWN),
        ("PROD 7", Fuel.UNKNOWN),
        ("RFND", Fuel.UNKNOWN),
        ("001", Fuel.UNKNOWN),
        ("062", Fuel.DEF),
        ("", Fuel.UNKNOWN),
        (None, Fuel.UNKNOWN),
    ],
)
def test_the_item_tells_the_fuel_or_nothing(item: str | None, fuel: Fuel) -> None:
    assert (fuel_of_product(item) or Fuel.OTHER) is fuel


@pytest.mark.parametrize("item", ["DslTaxEx", "Diesel w/o tax", "Diesel without tax"])
def test_fuel_without_tax_is_no_tax(item: str) -> None:
    assert fuel_of_product(item) is Fuel.OTHER


@pytest.mark.parametrize(
    "item", ["STAX", "SCLE", "ANFR", "Diesel additive", "Reefer repair", "Diesel tax", "Total Fuel"]
)
def test_things_beside_fuel_are_known_to_be_none(item: str) -> None:
    assert fuel_of_product(item) is None
    assert fuel_of_product(None, item) is None


@pytest.mark.parametrize(
    ("code", "name", "fuel"),
    [
        ("001", "ULSD DIESEL", Fuel.TRACTOR),  # EFS
        ("001", "Unleaded Regular", Fuel.OTHER),  # WEX
        ("062", "DEF DISPENSED", Fuel.DEF),
        ("020", "", Fuel.TRACTOR),
        ("DSL", "Diesel", Fuel.TRACTOR),
        ("DSL", "Grade 4", Fuel.TRACTOR),
        ("ULSD", "DYED DIESEL", Fuel.REEFER),
        ("DSL", "Farm diesel", Fuel.OTHER),
    ],
)
def test_a_name_tells_more_than_a_number(code: str, name: str, fuel: Fuel) -> None:
    assert fuel_of_product(code, name) is fuel


@pytest.mark.parametrize(("code", "name"), [("DSL", "Unleaded Regular"), ("DEFD", "Diesel"), ("ULSD", "Truck wash")])
def test_a_code_and_a_name_that_contradict_each_other_tell_nothing(code: str, name: str) -> None:
    assert fuel_of_product(code, name) is Fuel.UNKNOWN
