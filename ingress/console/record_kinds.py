"""The kinds of records on the pages Fleet and Stations: vehicles, drivers, stations, deals, taxes. Each has its ways to
search, show, edit and remove rows. `pages/fleet/fleet_and_stations.py` has the pages."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from domain.accounts.users import MAY_EDIT_FLEET, MAY_EDIT_POLICY, MAY_EDIT_STATIONS
from domain.audit.entries import Actor, audit_subject
from domain.contract.captions import CaptionedField, captioned_fields
from domain.database.listing import Listing
from domain.fleet import listings as fleet_listings
from domain.fleet.drivers import DriverRow
from domain.fleet.listings import StoredDriver
from domain.fleet.matching import Matched
from domain.fleet.records import ID_KIND
from domain.fleet.vehicles import LISTED, StoredVehicle, VehicleRow
from domain.ids import read_id, shown_id
from domain.languages.catalogues import translations_note
from domain.lifecycle import Role
from domain.operations.import_kinds import DealsFile, DriversFile, ImportFile, StationsFile, TaxesFile, VehiclesFile
from domain.routes.intake import fleet_changes
from domain.routes.intake.retiring import StillDriving, retire
from domain.stations.deals import DealFileRow, delete_deal, store_deal
from domain.stations.listings import DEALS, STATIONS, TAXES, StoredDeal, StoredStation, StoredTax
from domain.stations.stations import StationFileRow, insert_station, set_stations_retired, store_station
from domain.stations.taxes import TaxRow, delete_tax, store_tax, tax_key
from ingress.console.refusals import Refused, known, not_found
from ingress.console.signed_in import Page

Stored = TypeVar("Stored", bound=tuple[Any, ...])
"""A row for the list and the form: a NamedTuple."""
Typed = TypeVar("Typed", bound=Struct)
"""A row of the CSV file, or the text of a form."""


class RecordKind(ABC, Generic[Stored, Typed]):
    name: ClassVar[str]
    """The name, which is also the first part of its addresses."""
    one: ClassVar[str]
    section: ClassVar[Literal["fleet", "stations"]]
    about: ClassVar[str]
    """The explanation on its page."""
    search_hint: ClassVar[str]
    shape: type[Typed]
    listing: Listing[Stored]
    fields: ClassVar[Sequence[CaptionedField]]
    listed: ClassVar[Sequence[str]]
    """The fields in the list; the first one leads to the record."""
    may_edit: ClassVar[Collection[Role]]
    unit_fields: ClassVar[Collection[str]] = ()
    """Fields that only say how the price of the row is written, and are not stored."""
    is_global: ClassVar[bool] = False
    """True if all companies share the rows."""
    retires: ClassVar[bool] = False
    """True if rows are retired and kept; False if they are removed for good."""

    @property
    def in_navigation(self) -> str:
        """The section of its entry in the navigation, in which stations, deals and taxes are one page."""
        return self.name if self.section == "fleet" else self.section

    def field(self, name: str) -> CaptionedField:
        return next(field for field in self.fields if field.name == name)

    def company_id(self, page: Page) -> UUID | None:
        """The company whose rows are shown; None if all companies share them. Raises ChooseCompany if an operator has
        not chosen one."""
        return None if self.is_global else page.company_id

    def scope(self, page: Page) -> dict[str, UUID]:
        """The parameters of the listing's scope. Raises ChooseCompany if an operator has not chosen a company."""
        return {} if self.is_global else {"company_id": page.company_id}

    def read(self, page: Page, key: str) -> Stored:
        """The stored row. Raises Refused if there is none, also for another company's row."""
        return known(self.listing.read(page.connection, self.scope(page), **known(self.parameters(key))))

    def title(self, row: Stored) -> str:
        return str(getattr(row, self.listed[0]) or f"this {self.one}")

    def audit_subject(self, key: str) -> str:
        return audit_subject(self.one, key)

    def shown(self, row: Stored, field: CaptionedField) -> str:
        """A stored value in the form for people and imports."""
        return as_text(getattr(row, field.name))

    def is_retired(self, row: Stored) -> bool:
        return False

    @abstractmethod
    def key(self, row: Stored) -> str:
        """The name of the row in an address."""

    @abstractmethod
    def parameters(self, key: str) -> dict[str, object] | None:
        """The key as parameters of the listing; None if no row can have that key."""

    @abstractmethod
    def file(self, page: Page, path: Path) -> ImportFile:
        """The import of an arrived file with such rows."""

    @abstractmethod
    def save(self, page: Page, stored: Stored | None, typed: Typed, by: Actor) -> str:
        """Store the typed row, as a new one if `stored` is None. Returns its key."""

    @abstractmethod
    def end(self, page: Page, stored: Stored, by: Actor) -> None:
        """Retire the row, or remove it."""


def as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
    return value.isoformat() if isinstance(value, date) else str(value)


_UNIT_FIELDS = ("currency", "unit")

FleetRow = TypeVar("FleetRow", StoredVehicle, StoredDriver)


class _FleetKind(RecordKind[FleetRow, Typed]):
    section = "fleet"
    may_edit = MAY_EDIT_FLEET
    retires = True
    matched: ClassVar[Matched]

    def is_retired(self, row: FleetRow) -> bool:
        return row.retired_at is not None

    def key(self, row: FleetRow) -> str:
        return shown_id(ID_KIND[self.matched], row.id)

    def parameters(self, key: str) -> dict[str, object] | None:
        found = read_id(ID_KIND[self.matched], key)
        return {"id": found} if found is not None else None

    def end(self, page: Page, stored: FleetRow, by: Actor) -> None:
        force = page.form.text("force") == "yes" and page.session.role in MAY_EDIT_POLICY
        try:
            retire(page.connection, page.company_id, self.matched, stored.id, by, force=force, now=page.now)
        except StillDriving as driving:
            raise Refused(
                409,
                f"The {self.one} still has planned or active routes",
                f"{driving.some}. Wait until they are finished; or an owner retires the {self.one} and ends them.",
            ) from None


class Vehicles(_FleetKind[StoredVehicle, VehicleRow]):
    name = "vehicles"
    one = "vehicle"
    matched = "vehicle"
    about = "Your trucks. Routes are matched to them by unit number or VIN. Fuel plans use tank and miles per gallon."
    search_hint = "unit number, VIN, plate, year, make, model"
    shape = VehicleRow
    listing = fleet_listings.VEHICLES
    fields = captioned_fields(VehicleRow)
    listed = LISTED

    def title(self, row: StoredVehicle) -> str:
        return str(row.unit_number or row.vin)

    def file(self, page: Page, path: Path) -> ImportFile:
        return VehiclesFile(path=path, company_id=page.company_id)

    def save(self, page: Page, stored: StoredVehicle | None, typed: VehicleRow, by: Actor) -> str:
        if stored is None:
            vehicle_id = fleet_changes.add_vehicle(page.connection, page.company_id, typed, by)
            return shown_id("veh", vehicle_id)
        fleet_changes.edit_vehicle(page.connection, page.company_id, stored.id, typed, by)
        return self.key(stored)


class Drivers(_FleetKind[StoredDriver, DriverRow]):
    name = "drivers"
    one = "driver"
    matched = "driver"
    about = (
        "Your drivers. Routes are matched to them by name or external id."
        " Fuel plans are sent to the contact, which is never shown."
        f" Messages are in the driver's language, or else in English. {translations_note()}"
    )
    search_hint = "name, display name, external id"
    shape = DriverRow
    listing = fleet_listings.DRIVERS
    fields = captioned_fields(DriverRow)
    listed = ("name", "display_name", "external_id", "language", "contact")

    def shown(self, row: StoredDriver, field: CaptionedField) -> str:
        """The value for people. A contact is a secret, so they only see that there is one."""
        if field.name == "contact":
            return "stored" if row.contact else ""
        return super().shown(row, field)

    def file(self, page: Page, path: Path) -> ImportFile:
        return DriversFile(path=path, company_id=page.company_id, contacts=page.console.contacts)

    def save(self, page: Page, stored: StoredDriver | None, typed: DriverRow, by: Actor) -> str:
        contacts = page.console.contacts
        if stored is None:
            driver_id = fleet_changes.add_driver(page.connection, page.company_id, typed, by, contacts=contacts)
            return shown_id("drv", driver_id)
        fleet_changes.edit_driver(
            page.connection,
            page.company_id,
            stored.id,
            typed,
            by,
            keep_contact=typed.contact is None and page.form.text("contact_removed") != "yes",
            contacts=contacts,
        )
        return self.key(stored)


class Stations(RecordKind[StoredStation, StationFileRow]):
    name = "stations"
    one = "station"
    section = "stations"
    about = "Truck stops where plans may buy fuel, the same for all companies. A price counts for seven days."
    search_hint = "id, name, brand, address, city, state"
    shape = StationFileRow
    listing = STATIONS
    fields = captioned_fields(
        StationFileRow,
        *("station_id", "name", "brand", "address", "city", "state", "latitude", "longitude", "retail_price"),
        *("parking_spaces", "showers", "hours"),
        *_UNIT_FIELDS,
    )
    unit_fields = _UNIT_FIELDS
    listed = ("station_id", "name", "brand", "city", "state", "retail_price")
    may_edit = MAY_EDIT_STATIONS
    is_global = True
    retires = True

    def title(self, row: StoredStation) -> str:
        return str(row.name)

    def is_retired(self, row: StoredStation) -> bool:
        return row.retired_at is not None

    def key(self, row: StoredStation) -> str:
        return str(row.station_id)

    def parameters(self, key: str) -> dict[str, object] | None:
        return {"id": key}

    def file(self, page: Page, path: Path) -> ImportFile:
        return StationsFile(path=path)

    def save(self, page: Page, stored: StoredStation | None, typed: StationFileRow, by: Actor) -> str:
        checked = page.form.text("price_checked") == "yes"
        if stored is None:
            insert_station(page.connection, typed, by, now=page.now, believe=checked)
        else:
            is_same = typed.retail_price == stored.retail_price
            if is_same:
                typed = msgspec.structs.replace(typed, currency=stored.currency, unit=stored.unit, checked_price="yes")
            typed = msgspec.structs.replace(
                typed, station_id=stored.station_id, priced_at=stored.priced_at if is_same and not checked else None
            )
            is_there = page.form.text("place_checked") == "yes"
            store_station(page.connection, typed, by, now=page.now, believe=checked, believe_place=is_there)
        return str(typed.station_id)

    def end(self, page: Page, stored: StoredStation, by: Actor) -> None:
        set_stations_retired(page.connection, [stored.station_id], by, now=page.now)


class Deals(RecordKind[StoredDeal, DealFileRow]):
    name = "deals"
    one = "deal"
    section = "stations"
    about = (
        "Prices that your company has negotiated, for one station or all of a brand: a discount or a fixed net price."
        " Of all deals that hold on a day the cheapest counts, so give a deal its last day before a dearer one follows."
    )
    search_hint = "station id, brand"
    shape = DealFileRow
    listing = DEALS
    fields = captioned_fields(DealFileRow)
    unit_fields = _UNIT_FIELDS
    listed = ("station_id", "brand", "discount_per_gallon", "net_price", "valid_from", "valid_to")
    may_edit = MAY_EDIT_POLICY

    def title(self, row: StoredDeal) -> str:
        return f"Deal for {row.station_id or row.brand}"

    def key(self, row: StoredDeal) -> str:
        return str(row.id)

    def parameters(self, key: str) -> dict[str, object] | None:
        return {"id": int(key)} if key.isascii() and key.isdecimal() and len(key) < 10 else None

    def file(self, page: Page, path: Path) -> ImportFile:
        return DealsFile(path=path, company_id=page.company_id)

    def save(self, page: Page, stored: StoredDeal | None, typed: DealFileRow, by: Actor) -> str:
        old = stored.id if stored is not None else None
        checked = page.form.text("price_checked") == "yes"
        if stored is not None and (stored.net_price, stored.discount_per_gallon) == (
            typed.net_price,
            typed.discount_per_gallon,
        ):
            checked, typed = True, msgspec.structs.replace(typed, currency=stored.currency, unit=stored.unit)
        deal_id = store_deal(page.connection, page.company_id, old, typed, by, now=page.now, believe=checked)
        return str(known(deal_id))

    def end(self, page: Page, stored: StoredDeal, by: Actor) -> None:
        if not delete_deal(page.connection, page.company_id, stored.id, by, now=page.now):
            raise not_found()


class Taxes(RecordKind[StoredTax, TaxRow]):
    name = "taxes"
    one = "tax"
    section = "stations"
    about = (
        "Diesel taxes of the states, the same for all companies. The rate is credited for each gallon bought in the"
        " state; a surcharge is owed for the gallons burned there."
    )
    search_hint = "state, first day"
    shape = TaxRow
    listing = TAXES
    fields = captioned_fields(TaxRow, "state", "valid_from", "rate_per_gallon", "surcharge_per_gallon")
    listed = ("state", "valid_from", "rate_per_gallon", "surcharge_per_gallon")
    may_edit = MAY_EDIT_STATIONS
    is_global = True

    def title(self, row: StoredTax) -> str:
        return f"Tax of {row.state} from {row.valid_from}"

    def key(self, row: StoredTax) -> str:
        return tax_key(row.state, row.valid_from)

    def parameters(self, key: str) -> dict[str, object] | None:
        state, _, day = key.partition(" ")
        try:
            return {"state": state, "valid_from": date.fromisoformat(day)}
        except ValueError:
            return None

    def file(self, page: Page, path: Path) -> ImportFile:
        return TaxesFile(path=path)

    def save(self, page: Page, stored: StoredTax | None, typed: TaxRow, by: Actor) -> str:
        old = (stored.state, stored.valid_from) if stored is not None else None
        if not store_tax(page.connection, old, typed, by, now=page.now):
            raise not_found()
        return tax_key(typed.state, typed.valid_from)

    def end(self, page: Page, stored: StoredTax, by: Actor) -> None:
        if not delete_tax(page.connection, stored.state, stored.valid_from, by, now=page.now):
            raise not_found()


AnyRecordKind: TypeAlias = RecordKind[Any, Any]
VEHICLES, DRIVERS, STATION_LIST = Vehicles(), Drivers(), Stations()
RECORD_KINDS: tuple[AnyRecordKind, ...] = (VEHICLES, DRIVERS, STATION_LIST, Deals(), Taxes())
