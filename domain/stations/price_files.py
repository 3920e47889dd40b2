"""Price files of vendors: the meaning of each row, and its outcome.

A row gives the retail price of a station, which all companies share, and the net price of one company there, which
becomes a quote. Prices that are unlike others, or in money that has no rate, and rows whose station or product is not
certain, are held for a person. Rows of other products and of retired stations are passed over. A price for a later time
waits: a quote by its time, a retail price in `coming_prices`."""

from datetime import datetime
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.accounts.companies import require_company, time_zone_of
from domain.database.connections import Connection, as_json
from domain.database.statements import Command
from domain.files.csvfiles import Progress, UnreadableFile
from domain.files.profiles import FileProfile
from domain.files.reading import open_profiled
from domain.ids import new_id
from domain.stations.file_prices import FilePrices
from domain.stations.price_judging import TakenPrices, judge_prices, refuse_many_doubts
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import PRICE_FIELDS, with_usual_columns
from domain.stations.price_rows import (
    PriceImport,
    PriceReport,
    PriceRows,
    decisions_of,
    quotes_now,
    words_of_place,
)
from domain.stations.price_sets import begin_price_set, lock_prices, newest_price_set
from domain.stations.station_codes import code_of_row
from domain.stations.station_finding import StationFinder
from domain.stations.stored_prices import ADDED_COLUMNS, add_stations, stage_prices, store_staged_prices


def store_price_file(
    connection: Connection,
    company_id: UUID,
    path: Path,
    profile: FileProfile,
    *,
    takes_retail: bool,
    limits: OutlierLimits,
    now: datetime,
    priced_at: datetime | None = None,
    progress: Progress = lambda _: None,
) -> PriceReport:
    """Store the prices of a file, in the caller's transaction. With `takes_retail` the retail prices of stations
    change, too, and unknown stations are added. `priced_at` is the time of rows without one, by default now. Raises
    UnknownCompany, RetiredCompany, and UnreadableFile if the file is refused as a whole."""
    require_company(connection, company_id)
    profile, zone = with_usual_columns(profile), ZoneInfo(time_zone_of(connection, company_id))

    def judged(progress: Progress) -> tuple[PriceImport, TakenPrices]:
        one = PriceImport(
            connection,
            company_id,
            profile,
            takes_retail,
            limits,
            now,
            priced_at or now,
            PriceReport(),
            StationFinder(connection, company_id, profile.code_set),
            quotes_now(connection, company_id, now=now),
            decisions_of(connection, company_id),
            FilePrices(takes_retail=takes_retail),
        )
        _read(one, path, zone, progress)
        return one, judge_prices(one)

    # Rows are judged while others change prices; if that happened, the file is read again while others wait. Its rows
    # are not kept for that: a large file would fill the memory.
    seen = newest_price_set(connection, company_id)
    one, taken = judged(progress)
    lock_prices(connection, None if takes_retail else company_id)
    if newest_price_set(connection, company_id) != seen:
        one, taken = judged(lambda _: None)
    if takes_retail:
        begin_price_set(connection, "stations", None, now=now)
    begin_price_set(connection, "deals", company_id, now=now)
    _store(one, taken)
    return one.report


def _read(one: PriceImport, path: Path, zone: ZoneInfo, progress: Progress) -> None:
    """Read the rows of the file. Raises UnreadableFile."""
    report = one.report
    with open_profiled(path, one.profile, PRICE_FIELDS, zone, report, progress=progress, tell=report.pass_row) as file:
        if not one.takes_retail and "net_price" not in file.fields:
            raise UnreadableFile("the file has retail prices only, which all companies share: an operator imports it")
        rows = PriceRows(one, file.fields)
        for portion in file.portions:
            rows.read(portion)
            refuse_many_doubts(one)  # the doubts about a million rows would fill the memory


_HOLD = Command(
    """
    INSERT INTO held_prices (id, company_id, kind, station_id, code_set, code, place, candidates, price, currency, unit,
                             effective_at, profile, reason, held_at)
    SELECT it.id, %(company_id)s, it.kind, it.station_id, it.code_set, it.code, it.place,
           ARRAY(SELECT jsonb_array_elements_text(it.candidates)), it.price, it.currency, it.unit, it.effective_at,
           %(profile)s, it.reason, %(now)s
    FROM jsonb_to_recordset(%(rows)s) AS it (id uuid, kind text, station_id text, code_set text, code text, place text,
                                             candidates jsonb, price float8, effective_at timestamptz, reason text,
                                             currency text, unit text)
    ON CONFLICT DO NOTHING
    """
)


def _store(one: PriceImport, taken: TakenPrices) -> None:
    stage_prices(one.connection, one.prices.told(*taken))
    if one.added:
        add_stations(one.connection, (station[: len(ADDED_COLUMNS)] for station in one.added.values()), now=one.now)
    one.finder.keep_learnt(one.connection, one.company_id)
    store_staged_prices(one.connection, one.company_id, one.profile.name, now=one.now)
    _hold(one)


def _hold(one: PriceImport) -> None:
    waiting = []
    for doubt in one.doubts:
        code_set, code = code_of_row(doubt.place, one.profile.code_set)
        key = (doubt.kind, doubt.station_id, code_set, code, doubt.price, doubt.effective_at)
        if one.decided.get(key, "held") != "held":
            continue
        one.report.held += 1
        waiting.append(
            {
                "id": new_id(),
                "kind": doubt.kind,
                "station_id": doubt.station_id,
                "code_set": code_set,
                "code": code,
                "place": words_of_place(doubt.place)[:400],
                "candidates": list(doubt.candidates),
                "price": doubt.price,
                "effective_at": doubt.effective_at,
                "reason": doubt.reason,
                "currency": doubt.unit.currency,
                "unit": doubt.unit.unit,
            }
        )
    if waiting:
        _HOLD.execute(
            one.connection,
            {
                "company_id": one.company_id,
                "profile": one.profile.name,
                "now": one.now,
                "rows": as_json(waiting),
            },
        )
