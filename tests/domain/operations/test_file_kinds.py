"""The kind of a file, recognized by its columns: every case of the repository, and files that are nothing."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from domain.files.csvfiles import UnreadableFile
from domain.files.reading import first_rows
from domain.operations.file_kinds import FILE_KINDS, Recognized, recognize_kind
from domain.operations.file_looks import is_json_lines
from domain.operations.import_kinds import IMPORT_FILES

CASES = Path(__file__).parents[2] / "cases"
DEMO = Path(__file__).parents[3] / "deploy" / "demo"
OTHER_KINDS = {
    "fills/flying_j_station.csv": "stations",
    "prices/pilot/stations.csv": "stations",
    "kinds/stations_with_amenities.csv": "stations",
    "kinds/stations_of_osm.csv": "stations",
    "kinds/stations_without_diesel.csv": "stations",
    "kinds/stations_by_state.csv": "stations",
    "kinds/fleetmentor_vehicles.csv": "vehicles",
    "kinds/tsd_units.csv": "vehicles",
    "kinds/vehicles_tab.txt": "vehicles",
    "kinds/deals_semicolons.csv": "deals",
    "kinds/taxes_below_a_title.csv": "taxes",
    "kinds/routes.tsv": "routes",
    "fleet/drivers.csv": "drivers",
    "fleet/drivers_languages.csv": "drivers",
    "fleet/drivers_first_last.txt": "drivers",
    "fleet/drivers_left.csv": "drivers",
    "fleet/drivers_rounded.csv": "drivers",
    "fleet/loadsmart_drivers.csv": "drivers",
    "fleet/tmw_drivers.csv": "drivers",
}
KIND_OF_FOLDER = {
    "fills": "fills",
    "fills_identity": "fills",
    "fleet": "vehicles",
    "prices": "prices",
    "routes": "routes",
    "taxes": "taxes",
}
UNSURE = {
    "fills/dkv.csv": "no kind that is known",  # no state or province: it is refused in any case
    "fills/efs_rejects.csv": "nearly those of purchases",  # nothing was bought
    "fills/posting_date.csv": "nearly those of purchases",  # its day is not that of the purchase
    "fills/deliveries.csv": "nearly those of purchases",  # no state
    "fills_identity/wex_posted.csv": "purchases",  # two cards read it alike
    "fleet/drivers.csv": "1 of its 9 columns",
    "fleet/loadsmart_drivers.csv": "1 of its 7 columns",
    "fleet/loadsmart_trailers.csv": "nearly those of vehicles",  # plans are for the trucks that pull them
    "routes/dispatch_by_time.csv": "nearly those of routes",  # its columns need a mapping
    **dict.fromkeys(
        (
            *("routes/samsara_upload.csv", "routes/appointments.csv", "routes/amazon_relay_trips.csv"),
            *("routes/three_ids.csv", "routes/loadsmart_loads.csv", "routes/optimoroute_orders.csv"),
            *("routes/mcleod_stops.csv", "routes/days_with_midnight.csv"),
        ),
        "nearly those of routes",
    ),
    "kinds/trucks_and_prices.csv": "truck stops",
}
NO_FILES = {"kinds/signed_out.csv", "kinds/push.jsonl"}
TABLES = sorted(
    name
    for path in CASES.rglob("*")
    if path.suffix in (".csv", ".txt", ".tsv", ".xlsx") and (name := str(path.relative_to(CASES))) not in NO_FILES
)


def recognized(path: Path) -> Recognized:
    return recognize_kind(first_rows(path))


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_every_case_is_recognized(name: str) -> None:
    found = recognized(CASES / name)

    if name in UNSURE:
        assert not found.is_sure
        assert UNSURE[name] in found.why
    else:
        assert found.is_sure, found.why
    if name not in ("fills/dkv.csv", "kinds/trucks_and_prices.csv"):
        assert found.best is not None
        assert found.best.kind == (OTHER_KINDS.get(name) or KIND_OF_FOLDER[name.split("/")[0]])


@pytest.mark.parametrize("kind", ["vehicles", "drivers", "stations", "deals", "taxes"])
def test_the_files_of_the_demo_are_recognized(kind: str) -> None:
    found = recognized(DEMO / f"{kind}.csv")

    assert (found.best is not None and found.best.kind, found.is_sure) == (kind, True)


def test_each_kind_that_is_imported_is_in_the_table() -> None:
    assert {file.name for file in IMPORT_FILES} == set(FILE_KINDS)


def test_a_file_that_two_kinds_read_alike_is_left_to_a_person() -> None:
    found = recognized(CASES / "kinds" / "trucks_and_prices.csv")

    assert {fit.kind for fit in found.fits[:2]} == {"prices", "stations"}


def test_lines_of_bodies_are_known_by_their_beginning() -> None:
    assert is_json_lines(CASES / "kinds" / "push.jsonl")
    assert not is_json_lines(CASES / "kinds" / "routes.tsv")


def _zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("prices.csv", "Site,City\n1,Gary\n")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ((CASES / "kinds" / "signed_out.csv").read_bytes(), "download the file again"),
        (gzip.compress(b"Site,City\n1,Gary\n"), "unpack it"),
        (_zipped(), "unpack it"),
        (b"%PDF-1.7\n", "export the table as CSV"),
        (b"\x7fELF\x02\x01" + bytes(range(256)), "a program"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "a picture"),
    ],
    ids=("web page", "gzip", "zip", "pdf", "program", "picture"),  # archives hold the time at which they were made
)
def test_a_file_that_is_no_table_is_told_with_what_to_do(tmp_path: Path, content: bytes, advice: str) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)

    with pytest.raises(UnreadableFile, match=advice):
        first_rows(path)


def test_a_file_of_500_columns_and_one_with_formulas_are_looked_at(tmp_path: Path) -> None:
    wide, formula = tmp_path / "wide.csv", tmp_path / "formula.csv"
    wide.write_text(",".join(f"c{number}" for number in range(500)) + "\n" + ",".join(["1"] * 500) + "\n")
    formula.write_text("=cmd|' /C calc'!A0,unit_number,vin\n=1+1,101,1FUJGBDV8NLBT5011\n")

    assert recognized(wide).best is None
    found = recognized(formula).best
    assert found is not None
    assert found.kind == "vehicles"
