"""The telematics feed of a large fleet: how fast positions are stored and judged, and how soon a driver hears of an
arrival while that goes on.
"""

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, NamedTuple

from domain.encoding import write
from domain.lifecycle import RouteStatus
from domain.stations.stations import store_station_rows
from tests.benchmarks.harness import Bench, Figure, Stack, busiest
from tests.benchmarks.load import Load, drive, send
from tests.benchmarks.loader import Lot, load_fleet, load_keys, load_routes
from tests.factories import JOLIET, STATIONS

TRUCKS = 10_000
POSITIONS = 1000
"""The positions in one request."""
OPEN_ROUTES = 2000
CONNECTIONS = 8
PER_SECOND = 15_000
ARRIVALS_PER_SECOND = 4

_MAX_PER_SECOND = 40_000
"""Requests are made before they are sent; a faster service would end the round early."""
_FIX_SECONDS = 30
_DEGREES_A_FIX = 0.0065  # at 54 mph


class _Run(NamedTuple):
    rate: float
    """Answers of the constant endpoint, or positions stored and judged, per second."""
    to_message_ms: Sequence[float] = (0.0,)
    note: str = ""


def run(bench: Bench) -> list[Figure]:
    with bench.stack("feed") as stack:
        feed = _Feed(bench, stack)
        results = bench.alternate(
            "feed",
            {
                "constant": lambda: _Run(bench.constant_rate(feed.constant)),
                "as fast as it can": feed.measure,
                f"{PER_SECOND:,} positions/s": lambda: feed.measure(PER_SECOND),
                "arrivals alone": feed.measure_idle,
            },
        )
    constant, fastest, steady, idle = results.values()
    name = f"feed: {TRUCKS:,} vehicles, {POSITIONS:,} positions a request, {OPEN_ROUTES:,} open routes"
    return [
        Figure("feed: the constant endpoint, 128 connections", "/s", [run.rate for run in constant]),
        Figure(
            f"{name}, stored and judged",
            "/s",
            [run.rate for run in fastest],
            at_least=PER_SECOND,
            note=fastest[-1].note,
        ),
        _to_message(f"at {PER_SECOND:,} positions/s", steady, at_most=300),
        _to_message("at the top rate", fastest),
        _to_message("idle system", idle),
    ]


def _to_message(when: str, runs: Sequence[_Run], at_most: float | None = None) -> Figure:
    medians = [statistics.median(run.to_message_ms) for run in runs]
    name = f"feed: arrival to driver's message, {when}, p50"
    return Figure(name, "ms", medians, at_most=at_most, note=runs[-1].note)


class _Feed:
    """A fleet on the road that reports again and again, and trucks that arrive at their first stops, one by one."""

    def __init__(self, bench: Bench, stack: Stack) -> None:
        self._stack, self._seconds = stack, bench.seconds
        self._arrivals_a_round = max(1, round(ARRIVALS_PER_SECOND * bench.seconds))
        self._reports = self._arrived = 0
        self._started = now = datetime.now(UTC)
        arriving_trucks = 3 * bench.rounds * self._arrivals_a_round
        with stack.database.transaction() as connection:
            store_station_rows(connection, STATIONS, now=now)
            fleet, arriving = load_fleet(connection, TRUCKS), load_fleet(connection, arriving_trucks)
            self._key, self._arriving_key = (load_keys(connection, one, share=0)[0] for one in (fleet, arriving))
        starts = (now, now + timedelta(hours=2))
        lots = [
            Lot(fleet, OPEN_ROUTES, RouteStatus.DRAFT, starts),
            Lot(arriving, arriving_trucks, RouteStatus.DRAFT, starts),
        ]
        load_routes(stack.database, lots)
        self.constant = stack.start_constant()
        most = str(60 * _MAX_PER_SECOND)
        self._address = stack.start_ingress(FEED_POSITIONS_PER_MINUTE=most, FEED_REQUESTS_PER_MINUTE=most)
        for queue in ("arrivals", "plans", "messages"):
            stack.start("workers", "--queues", queue)
        stack.start("scheduler")

    def measure(self, positions_per_second: float | None = None) -> _Run:
        """Runs the reports and the arrivals at once, until the last position is judged."""
        reports = -(-int(_MAX_PER_SECOND * self._seconds) // TRUCKS)
        requests = [request for _ in range(reports) for request in self._fleet_report()]
        stored_before, since = self._stored(), datetime.now(UTC)

        async def both() -> Load:
            positions = send(
                [self._address],
                iter(requests),
                expect=202,
                seconds=self._seconds,
                connections=CONNECTIONS,
                warm_up=0,
                per_second=positions_per_second / POSITIONS if positions_per_second else None,
            )
            load, _ = await asyncio.gather(positions, self._arrive())
            return load

        with self._stack.watched() as shares:
            started = perf_counter()
            load = drive(both())
            self._stack.wait_until(
                "SELECT NOT EXISTS (SELECT FROM tracks WHERE unprocessed_from IS NOT NULL)", seconds=120
            )
            seconds = perf_counter() - started
        rate = (self._stored() - stored_before) / seconds
        note = f"{busiest(shares)}; a request p50 {load.percentile(50):.0f} ms, p99 {load.percentile(99):.0f} ms"
        return _Run(rate, self._to_message_ms(since), note)

    def measure_idle(self) -> _Run:
        since = datetime.now(UTC)
        drive(self._arrive())
        return _Run(0, self._to_message_ms(since))

    def _fleet_report(self) -> Iterator[bytes]:
        """The next position of every truck, 30 s after the last one, far from any stop."""
        self._reports += 1
        moment = (self._started - timedelta(hours=6) + self._reports * timedelta(seconds=_FIX_SECONDS)).isoformat()
        latitude = 30 + self._reports * _DEGREES_A_FIX
        for first in range(0, TRUCKS, POSITIONS):
            trucks = range(first, first + POSITIONS)
            yield _request(
                self._key, [_fix(truck, latitude, -120 + truck * 0.004, moment, speed_mph=54) for truck in trucks]
            )

    async def _arrive(self) -> None:
        """The next trucks stand at their first stop; each is there with its second fix, recorded as it is sent."""
        trucks = range(self._arrived, self._arrived + self._arrivals_a_round)
        self._arrived = trucks.stop

        def requests() -> Iterator[bytes]:
            def parked(truck: int) -> tuple[float, float]:
                """A place within 120 m of the stop. No two of a hundred trucks stand at the same place."""
                return JOLIET["latitude"] + truck % 100 * 1e-5, JOLIET["longitude"]

            before = (datetime.now(UTC) - timedelta(seconds=_FIX_SECONDS)).isoformat()
            yield _request(self._arriving_key, [_fix(truck, *parked(truck), before, speed_mph=0) for truck in trucks])
            for truck in trucks:
                now = datetime.now(UTC).isoformat()
                yield _request(self._arriving_key, [_fix(truck, *parked(truck), now, speed_mph=0)])

        await send(
            [self._address],
            requests(),
            expect=202,
            seconds=len(trucks) / ARRIVALS_PER_SECOND + 10,
            connections=1,
            per_second=ARRIVALS_PER_SECOND,
            warm_up=0,
        )

    def _to_message_ms(self, since: datetime) -> list[float]:
        """Milliseconds from the moment that the deciding fix was sent to the stored time of the message, for each
        arrival."""
        self._stack.wait_until(f"SELECT count(*) = {self._arrived} FROM messages WHERE status = 'sent'", seconds=60)
        rows = self._stack.query(
            "SELECT extract(epoch FROM m.sent_at - max(p.recorded_at))::float8 * 1000 AS milliseconds"
            " FROM messages m JOIN routes r ON r.id = m.route_id JOIN positions p ON p.vehicle_id = r.vehicle_id"
            " WHERE m.created_at >= %s GROUP BY m.id",
            since,
        )
        return [row.milliseconds for row in rows]

    def _stored(self) -> int:
        return int(self._stack.query("SELECT count(*) FROM positions")[0][0])


def _fix(truck: int, latitude: float, longitude: float, recorded_at: str, *, speed_mph: float) -> dict[str, Any]:
    return {
        "unitNumber": f"{truck:05}",
        "latitude": round(latitude, 6),
        "longitude": round(longitude, 6),
        "recordedAt": recorded_at,
        "speedMph": speed_mph,
        "fuelPercent": 40,
        "accuracyMeters": 8,
    }


def _request(key: bytes, positions: list[dict[str, Any]]) -> bytes:
    body = write({"positions": positions})
    head = (
        b"POST /telematics/positions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (key, len(body)) + body
