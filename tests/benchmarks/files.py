"""Imports of files: a fuel card's purchases, first and again, and a chain's prices, first and on the next day.

The reference reads the same file with `csv.DictReader` and stores its cells by one COPY into a plain table. It matches,
judges and checks nothing.
"""

import csv
import gc
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from psycopg import sql

from domain.database.connections import Connection, Database
from domain.files.csvfiles import ImportReport
from domain.fills.profiles import card_profile
from domain.lifecycle import Environment
from domain.operations.import_kinds import FillsFile, ImportFile, PricesFile
from domain.operations.import_records import IMPORTING
from domain.operations.import_runs import ImportRun
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN
from ingress.http.garbage import collect_rarely
from tests.benchmarks.harness import Bench, Figure, Stack, exact_cpu_seconds, ratios
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.loader import load_fleet
from tests.domain.fills.cards import efs, write_efs

TRUCKS = 400
DAYS = 27
"""The days of purchases in the card's file."""
PLACES = 700
"""The stations at which the fleet fuels."""
FIRST_STORE = 1000
TOWNS = 3000

COPIED = "read and copied"
"""The reference."""

_COUNTED_SECONDS = 0.05
"""The system counts the last of a backend's time when it goes to sleep, which is after its answer."""
_STATES = ("IN", "OH", "IL", "TX", "CA", "PA", "GA", "TN", "MO", "KS", "NE", "IA", "WY", "UT", "NV", "AZ", "NM", "OK")


class _Cost(NamedTuple):
    """The cost of storing one file."""

    rows: int
    seconds: float
    client_cpu_seconds: float
    backend_cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @property
    def note(self) -> str:
        return (
            f"{self.seconds:.2f} s; processor time: client {self.client_cpu_seconds:.3f} s,"
            f" backend {self.backend_cpu_seconds:.3f} s"
        )


def run(bench: Bench) -> list[Figure]:
    collect_rarely()  # as the command and the console do
    with (
        tempfile.TemporaryDirectory(prefix="fuelroute-bench-files-") as folder,
        bench.stack("files") as stack,
        Database.of(stack.settings, pool_size=1) as database,
    ):
        files = _Files(bench, stack, database, Path(folder))
        prices = bench.alternate(
            "files, prices",
            {COPIED: files.copy_prices, "first": files.prices_first, "the next day's": files.prices_next_day},
        )
        fills = bench.alternate(
            "files, fills", {COPIED: files.copy_fills, "first": files.fills_first, "again": files.fills_again}
        )
    return [
        *_figures(f"files: {bench.prices:,} prices", prices),
        *_figures(f"files: {bench.fills:,} fills", fills),
    ]


def _figures(rows: str, results: Mapping[str, Sequence[_Cost]]) -> Iterator[Figure]:
    for work, costs in results.items():
        yield Figure(f"{rows}, {work}", "rows/s", [one.rate for one in costs], note=costs[-1].note)
        if work != COPIED:
            yield from _of_reference(f"{rows}, {work}", costs, results[COPIED])


def _of_reference(name: str, costs: Sequence[_Cost], reference: Sequence[_Cost]) -> Iterator[Figure]:
    measures: dict[str, Callable[[_Cost], float]] = {
        "rows/s": lambda one: one.rate,
        "processor time of the client": lambda one: one.client_cpu_seconds,
        "processor time of the backend": lambda one: one.backend_cpu_seconds,
    }
    for measure, value in measures.items():
        compared = ratios([value(one) for one in costs], [value(one) for one in reference])
        yield Figure(f"{name}, {measure}, of the reference", "x", compared)


class _Files:
    """The files, the company that imports them, and the one backend of `database`, which stores them."""

    def __init__(self, bench: Bench, stack: Stack, database: Database, folder: Path) -> None:
        self._stack, self._database = stack, database
        self._fill_count, self._price_count = bench.fills, bench.prices
        today = datetime.now(UTC)
        self._prices = [
            _write_prices(folder / "first.csv", _price_rows(bench.prices, today - timedelta(days=2), 0.0)),
            _write_prices(folder / "next-day.csv", _price_rows(bench.prices, today - timedelta(days=1), 0.1)),
        ]
        places = min(PLACES, bench.prices)
        self._fills = write_efs(
            folder / "fills.csv", *_fill_lines(bench.fills, places, today - timedelta(days=DAYS + 1))
        )
        with database.transaction() as connection:
            self._company_id = load_fleet(connection, TRUCKS + 1).company_id
            self._backend = connection.info.backend_pid
            for table, path in (("copied_prices", self._prices[0]), ("copied_fills", self._fills)):
                _create_plain_table(connection, table, path)

    def copy_prices(self) -> _Cost:
        return self._copy("copied_prices", self._prices[0], self._price_count)

    def prices_first(self) -> _Cost:
        """Every row adds a station."""
        self._stack.execute("TRUNCATE stations CASCADE")
        cost, report = self._import(self._prices_file(self._prices[0]), self._price_count)
        _check(report, report.created, self._price_count)
        return cost

    def prices_next_day(self) -> _Cost:
        """Every row changes a price."""
        cost, report = self._import(self._prices_file(self._prices[1]), self._price_count)
        _check(report, report.updated, self._price_count)
        return cost

    def copy_fills(self) -> _Cost:
        return self._copy("copied_fills", self._fills, self._fill_count)

    def fills_first(self) -> _Cost:
        """Each is matched to its truck and to one of the stations that the prices have brought."""
        self._stack.execute("TRUNCATE fills CASCADE")
        cost, report = self._import(self._fills_file(), self._fill_count)
        _check(report, report.created, self._fill_count)
        (row,) = self._stack.query("SELECT count(station_id) AS placed, count(vehicle_id) AS driven FROM fills")
        if row != (self._fill_count, self._fill_count):
            raise LoadFailed(f"of {self._fill_count:,} fills {row.placed:,} have a station, {row.driven:,} a truck")
        return cost

    def fills_again(self) -> _Cost:
        """Every row is known already."""
        cost, report = self._import(self._fills_file(), self._fill_count)
        _check(report, report.unchanged, self._fill_count)
        return cost

    def _prices_file(self, path: Path) -> PricesFile:
        return PricesFile(
            path=path,
            company_id=self._company_id,
            profile=BUILT_IN["loves"],
            takes_retail=True,
            limits=OutlierLimits.of(self._stack.settings),
            file_name=path.name,
            sender="bench",
        )

    def _fills_file(self) -> FillsFile:
        return FillsFile(
            path=self._fills,
            company_id=self._company_id,
            environment=Environment.LIVE,
            profile=card_profile("efs"),
            far_miles=self._stack.settings.fill_far_miles,
        )

    def _import(self, file: ImportFile, rows: int) -> tuple[_Cost, ImportReport]:
        """Stores a file with the run that the command and the console use."""
        run = ImportRun(file, lambda: self._database.transaction(limits=IMPORTING), "bench")
        with self._measured(rows) as costs:
            report = run.store()
        return costs[0], report

    def _copy(self, table: str, path: Path, rows: int) -> _Cost:
        self._stack.execute(f"TRUNCATE {table}")
        with (
            self._measured(rows) as costs,
            self._database.transaction(limits=IMPORTING) as connection,
            connection.cursor().copy(f"COPY {table} FROM STDIN") as copy,
            path.open(newline="") as file,
        ):
            for row in csv.DictReader(file):
                copy.write_row(tuple(row.values()))
        return costs[0]

    @contextmanager
    def _measured(self, rows: int) -> Iterator[list[_Cost]]:
        """Gives a list to which the cost of the block is added."""
        costs: list[_Cost] = []
        gc.collect()
        backend, started, client = exact_cpu_seconds(self._backend), time.perf_counter(), time.thread_time()
        yield costs
        client, seconds = time.thread_time() - client, time.perf_counter() - started
        time.sleep(_COUNTED_SECONDS)
        costs.append(_Cost(rows, seconds, client, exact_cpu_seconds(self._backend) - backend))


def _check(report: ImportReport, stored: int, rows: int) -> None:
    if stored != rows:
        raise LoadFailed(
            f"of {rows:,} rows {stored:,} were stored as expected: {report.told()}, {report.refused} refused"
        )


def _create_plain_table(connection: Connection, table: str, path: Path) -> None:
    with path.open(newline="") as file:
        names = next(csv.reader(file))
    columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in names)
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(table), columns))


def _write_prices(path: Path, rows: Iterable[dict[str, object]]) -> Path:
    first, *others = rows
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(first))
        writer.writeheader()
        writer.writerows([first, *others])
    return path


def _price_rows(count: int, day: datetime, dearer: float) -> Iterator[dict[str, object]]:
    """Love's stores, each at its own place. `dearer` is in dollars a gallon."""
    rng = random.Random("prices")
    for number in range(count):
        retail = round(rng.uniform(3.8, 4.2) + dearer, 3)
        net, store = round(retail - 0.5, 3), FIRST_STORE + number
        row, column = number % len(_STATES), number // len(_STATES)
        yield {
            "Customer": "ACME",
            "Loves Store No.": store,
            "City": f"Town {number % TOWNS}",
            "State": _STATES[row],
            "Billing Card Station Code": f"LV{store}",
            "OPIS Rack ID": 301,
            "Retail Price": retail,
            "Retail Minus Discount": 0.5,
            "Retail Minus Discounted Price": net,
            "OPIS / NYMEX Rack": 2.9,
            "Pumping Fee": 0.05,
            "OPIS Discounted Price": 3.52,
            "Best Discounted Price": net,
            "Total Taxes and Fees": 0.6,
            "Federal Taxes": 0.24,
            "State Taxes": 0.36,
            "Other Taxes": 0,
            "Sales Tax": 0,
            "Freight Fee": 0.02,
            "Discounted Type Applied": "Retail",
            "Effective Date": f"{day:%m/%d/%Y}",
            "DEF Retail Price": 3.1,
            "Latitude": f"{26 + row * 1.1 + rng.random():.4f}",
            "Longitude": f"{-120 + column * 0.009:.4f}",
        }


def _fill_lines(count: int, places: int, first_day: datetime) -> Iterator[str]:
    """Purchases of all trucks but 00000, which a card's file writes for no truck, at these many of the Love's."""
    rng = random.Random("fills")
    for number in range(count):
        gallons, price, discount = round(rng.uniform(50, 180), 2), round(rng.uniform(3, 4), 3), 0.2
        day, place, truck = first_day + timedelta(days=number * DAYS // count), number % places, 1 + number % TRUCKS
        yield efs(
            card=f"70830512345{truck:05}",
            date=f"{day:%Y-%m-%d}",
            time=f"{rng.randrange(24):02}:{rng.randrange(60):02}",
            invoice=f"{number:07}",
            unit=f"{truck:05}",
            location=f"LOVES #{FIRST_STORE + place}",
            city=f"TOWN {place % TOWNS}",
            state=_STATES[place % len(_STATES)],
            unit_price=f"{price + discount:.3f}",
            price=f"{price:.3f}",
            qty=f"{gallons:.2f}",
            disc_amt=f"{discount * gallons:.2f}",
            amount=f"{price * gallons:.2f}",
        )
