"""A row of the CSV file declares the columns of vehicles and of drivers. What declares them again agrees with it."""

from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from domain.contract.captions import captioned_fields
from domain.contract.shapes import Driver, Vehicle
from domain.fleet.drivers import DriverRow
from domain.fleet.listings import StoredDriver
from domain.fleet.vehicles import StoredVehicle, VehicleRow
from domain.tables.fleet import Drivers, Vehicles


class Declared(NamedTuple):
    row: type[Struct]
    table: Any
    stored: Any
    answer: type[Struct]


VEHICLES = Declared(VehicleRow, Vehicles, StoredVehicle, Vehicle)
DRIVERS = Declared(DriverRow, Drivers, StoredDriver, Driver)


@pytest.fixture(params=[VEHICLES, DRIVERS], ids=["vehicles", "drivers"])
def declared(request: pytest.FixtureRequest) -> Declared:
    found: Declared = request.param
    return found


def test_a_stored_record_has_the_columns_of_the_row(declared: Declared) -> None:
    assert declared.stored._fields == ("id", *declared.row.__struct_fields__, "retired_at")


def test_the_table_has_the_columns_of_a_stored_record(declared: Declared) -> None:
    assert set(declared.table.__table__.columns.keys()) == {*declared.stored._fields, "company_id", "created_at"}


def test_the_api_answers_with_stored_columns(declared: Declared) -> None:
    assert set(declared.answer.__struct_fields__) <= set(declared.stored._fields)


def test_every_field_of_the_row_has_a_caption(declared: Declared) -> None:
    assert [field.name for field in captioned_fields(declared.row)] == list(declared.row.__struct_fields__)
