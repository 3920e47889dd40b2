"""The figures of operators: overdue work of all companies according to the database, whatever the queues show.

A figure is declared once, with its statement, its limits and its words. The pages Queues, `fuelroute queues`, the
doctor, the metrics, the notices of operators and the rules of Prometheus derive from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from domain.ids import IdKind
from domain.needs.need import Need
from domain.routes.reading.on_their_way import TRUCK_SILENT_AFTER
from domain.stations.price_sources import HAS_TROUBLE, TOLD_AFTER
from domain.stations.prices import STALE_AFTER


class Urgent(NamedTuple):
    """Operators act now: they are told of the figure, and its alert pages."""

    kind: str
    """The kind, in the words of subscriptions and notices."""
    ended: str
    """The sentence that says that it is over."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    name: str
    """Its name in addresses, in JSON and as the label of its metric."""
    title: str
    """Its name on the page Queues."""
    after: timedelta = timedelta(0)
    """Things are overdue at this age: `%(after)s` in the SQL. `%(first_id)s` is the smallest id that is younger."""
    of: IdKind | None = "rte"
    """The kind of the ids of its rows. None: stations, whose ids have no prefix."""
    sql: str
    """Gives the rows. It starts from a partial index, which holds few rows in a healthy service."""
    what: str
    what_to_do: str
    urgent: Urgent | None = None
    """The operators' need; None for a figure that need not be handled within the day."""
    alert: str
    """The name of its alert in Prometheus."""
    alert_minutes: int = 0
    """The alert fires when there have been rows for this time: a restart of workers calls nobody."""
    expression: str = ""
    """PromQL for the alert, in place of "there are rows"."""
    summary: str
    """The alert's words; `$value` is the number of rows, or the value of `expression`."""
    runbook: str
    """The heading of its part of the runbook, as addresses have it."""

    @property
    def path(self) -> str:
        return f"/queues/overdue/{self.name}"

    @property
    def need(self) -> Need | None:
        """The need of operators, if it is urgent."""
        if self.urgent is None:
            return None
        return Need(kind=self.urgent.kind, label=self.what, ended=self.urgent.ended, path=self.path)


_FIGURES = (
    Figure(
        name="pending",
        title="Waiting too long for their import",
        after=timedelta(minutes=1),
        sql="""
            SELECT id::text AS id, company_id, external_id AS about, retry_at AS since,
                   coalesce(pending_detail, '') AS detail
            FROM routes WHERE status = 'pending' AND retry_at < %(now)s::timestamptz - %(after)s::interval
            ORDER BY retry_at
        """,
        what="Routes wait too long for their import",
        what_to_do="Check that the queue imports moves",
        urgent=Urgent("imports_late", ended="No route waits too long for its import"),
        alert="FuelroutePushesNotImported",
        alert_minutes=5,
        summary="{{ $value }} routes have waited too long for their import",
        runbook="overdue-work",
    ),
    Figure(
        name="unplanned",
        title="Arrived, not planned",
        after=timedelta(minutes=10),
        sql="""
            SELECT id::text AS id, company_id, external_id AS about, arrived_at AS since,
                   'failed attempts: ' || attempts AS detail
            FROM routes WHERE status = 'draft' AND arrived_at < %(now)s::timestamptz - %(after)s::interval
            ORDER BY arrived_at
        """,
        what="Trucks have arrived and have no plan",
        what_to_do="Check fuelroute explain and the queue plans",
        urgent=Urgent("plans_late", ended="No truck waits too long for its plan"),
        alert="FuelrouteTrucksWithoutPlan",
        alert_minutes=5,
        summary="{{ $value }} trucks have arrived and have no plan",
        runbook="overdue-work",
    ),
    Figure(
        name="unsent",
        title="Planned, not sent",
        after=timedelta(minutes=10),
        sql="""
            SELECT route_id::text AS id, company_id, coalesce(channel, '') AS about, created_at AS since,
                   coalesce(error, '') AS detail
            FROM messages WHERE status = 'pending' AND withheld_since IS NULL
              AND created_at < %(now)s::timestamptz - %(after)s::interval
            ORDER BY created_at
        """,
        what="Plans were not sent to their drivers",
        what_to_do="Read the gateway's error, and check the queue messages",
        urgent=Urgent("messages_late", ended="No plan waits too long to be sent"),
        alert="FuelroutePlansNotSent",
        alert_minutes=5,
        summary="{{ $value }} plans were not sent to their drivers",
        runbook="messages-failing",
    ),
    Figure(
        name="withheld-messages",
        title="Withheld messages",
        sql="""
            SELECT route_id::text AS id, company_id, coalesce(channel, '') AS about, withheld_since AS since,
                   coalesce(error, '') AS detail
            FROM messages WHERE status = 'pending' AND withheld_since IS NOT NULL
            ORDER BY created_at
        """,
        what="Messages are withheld after a restore",
        what_to_do="Ask the drivers which they have, then run fuelroute messages release or discard",
        urgent=Urgent("messages_withheld", ended="No message is withheld any more"),
        alert="FuelrouteMessagesWithheld",
        summary="{{ $value }} messages are withheld after a restore",
        runbook="restore",
    ),
    Figure(
        name="failed-messages",
        title="Failed messages, 24 hours",
        # a company looks at its own for seven days, while the route is planned. A message that was discarded before any
        # attempt, or for which the driver got a newer one, calls nobody.
        after=timedelta(hours=24),
        sql="""
            SELECT m.route_id::text AS id, m.company_id, coalesce(m.channel, '') AS about, m.created_at AS since,
                   coalesce(m.error, '') AS detail
            FROM messages m JOIN routes r ON r.id = m.route_id
            WHERE m.id >= %(first_id)s AND m.status = 'failed' AND m.attempts > 0
              AND r.status IN ('planned', 'active', 'completed')
              AND NOT EXISTS (SELECT FROM messages newer
                              WHERE newer.route_id = m.route_id AND newer.text IS NOT NULL AND newer.id > m.id
                                AND (newer.status <> 'failed' OR newer.attempts > 0))
            ORDER BY m.created_at DESC
        """,
        what="Messages failed for good within 24 hours",
        what_to_do="Call the drivers; correct their contacts",
        alert="FuelrouteMessagesGivenUp",
        summary="{{ $value }} messages failed for good within a day",
        runbook="messages-failing",
    ),
    Figure(
        name="silent-trucks",
        title="Silent trucks on a route",
        # a company is not told of trucks that never sent a position, nor before the plan. In the sandbox no truck
        # drives, and time is simulated
        after=TRUCK_SILENT_AFTER,
        sql="""
            SELECT route.id::text AS id, route.company_id, coalesce(vehicle_unit_number, vehicle_vin, '') AS about,
                   track.newest_at AS since, route.status AS detail
            FROM routes route
            LEFT JOIN tracks track ON track.vehicle_id = route.vehicle_id AND track.environment = route.environment
            WHERE (status IN ('planned','active') OR status = 'draft' AND arrived_at IS NOT NULL)
              AND route.environment = 'live'
              AND (track.newest_at IS NULL OR track.newest_at < %(now)s::timestamptz - %(after)s::interval)
            ORDER BY track.newest_at NULLS FIRST
        """,
        what="Trucks on a route have sent no position for an hour",
        what_to_do="Ask the telematics provider",
        alert="FuelrouteTrucksSilent",
        alert_minutes=60,
        summary="{{ $value }} trucks on a route send no position",
        runbook="trucks-silent",
    ),
    Figure(
        name="held",
        title="Held past their start",
        # a company is told before the start, as soon as the route waits for a vehicle or a driver. In the sandbox it is
        # rehearsed, and nobody waits for the route
        sql="""
            SELECT id::text AS id, company_id, external_id AS about, scheduled_start AS since,
                   coalesce(pending_reason, '') AS detail
            FROM routes WHERE status IN ('pending_mapping','pending_window') AND scheduled_start < %(now)s
              AND environment = 'live'
            ORDER BY scheduled_start
        """,
        what="Routes are held though their start has passed",
        what_to_do="Map their units and drivers in Matching",
        alert="FuelrouteRoutesHeldPastStart",
        alert_minutes=60,
        summary="{{ $value }} routes are held though their start has passed",
        runbook="routes-held",
    ),
    Figure(
        name="stale-prices",
        title="Stale prices",
        # a company is told when no station has a price; Prometheus when a tenth of them is old
        after=STALE_AFTER,
        of=None,
        sql="""
            SELECT station_id AS id, NULL::uuid AS company_id, name AS about, priced_at AS since,
                   coalesce(state, '') AS detail
            FROM stations WHERE retired_at IS NULL AND retail_price IS NOT NULL
              AND (priced_at IS NULL OR priced_at < %(now)s::timestamptz - %(after)s::interval)
            ORDER BY priced_at NULLS FIRST
        """,
        what="Stations have prices that are too old for plans",
        what_to_do="Import prices again",
        alert="FuelroutePricesOld",
        alert_minutes=30,
        expression="fuelroute:prices_old:ratio > 0.1",
        summary="Prices of {{ $value | humanizePercentage }} of the stations are too old for plans",
        runbook="prices-old",
    ),
    Figure(
        name="waiting-webhooks",
        title="Webhook endpoints that wait",
        after=timedelta(minutes=10),
        of="whe",
        sql="""
            SELECT e.id::text AS id, e.company_id, split_part(e.url, '?', 1) AS about, d.retry_at AS since,
                   'attempts: ' || d.attempts AS detail
            FROM webhook_endpoints e CROSS JOIN LATERAL (
                SELECT retry_at, attempts FROM webhook_deliveries it
                WHERE endpoint_id = e.id AND status = 'pending'
                  AND retry_at < %(now)s::timestamptz - %(after)s::interval
                  AND (route_id IS NULL OR number = (
                      SELECT min(first.number) FROM webhook_deliveries first
                      WHERE first.endpoint_id = it.endpoint_id AND first.route_id = it.route_id
                        AND first.status = 'pending'))
                ORDER BY retry_at, number LIMIT 1) AS d
            WHERE e.disabled_at IS NULL AND e.failing_since IS NULL
            ORDER BY d.retry_at
        """,
        what="Webhook endpoints wait too long for their events",
        what_to_do="Check that the queue webhooks moves",
        urgent=Urgent("webhooks_late", ended="No endpoint waits too long for its events"),
        alert="FuelrouteWebhooksWaiting",
        alert_minutes=5,
        summary="{{ $value }} endpoints wait too long for their events",
        runbook="webhooks",
    ),
    Figure(
        name="failing-webhooks",
        title="Webhook endpoints that take nothing",
        after=timedelta(hours=1),
        of="whe",
        sql="""
            SELECT id::text AS id, company_id, split_part(url, '?', 1) AS about, failing_since AS since,
                   coalesce('disabled: ' || disabled_reason, 'failing') AS detail
            FROM webhook_endpoints WHERE failing_since < %(now)s::timestamptz - %(after)s::interval
            ORDER BY failing_since
        """,
        what="Webhook endpoints take nothing, or were disabled because of that",
        what_to_do="Tell their companies; the console's page Webhooks shows the answers",
        alert="FuelrouteWebhooksFailing",
        summary="{{ $value }} endpoints take nothing, or were disabled",
        runbook="webhooks",
    ),
    Figure(
        name="unpolled-connectors",
        title="Connectors that nobody polls",
        after=timedelta(minutes=3),
        of="con",
        sql="""
            SELECT id::text AS id, company_id, name AS about, coalesce(leased_until, created_at) AS since,
                   'no process polls it' AS detail
            FROM connectors WHERE asks AND paused_at IS NULL
              AND greatest(leased_until, created_at, answered_at) < %(now)s::timestamptz - %(after)s::interval
            ORDER BY since
        """,
        what="No process asks vendors of telematics for positions",
        what_to_do="Start one: fuelroute connectors",
        urgent=Urgent("connectors_unpolled", ended="The vendors of telematics are asked again"),
        alert="FuelrouteConnectorsNotPolled",
        alert_minutes=2,
        summary="{{ $value }} connectors are polled by no process: their positions do not come in",
        runbook="connectors",
    ),
    Figure(
        name="failing-connectors",
        title="Connectors that fail",
        after=timedelta(minutes=30),
        of="con",
        sql="""
            SELECT id::text AS id, company_id, name AS about, failing_since AS since, coalesce(last_error, '') AS detail
            FROM connectors WHERE paused_at IS NULL
              AND failing_since < %(now)s::timestamptz - %(after)s::interval
            ORDER BY failing_since
        """,
        what="Connectors have brought no positions for half an hour",
        what_to_do="The console's page Connectors says what to do; a token may have been revoked",
        alert="FuelrouteConnectorsFailing",
        summary="{{ $value }} connectors have brought no positions for half an hour",
        runbook="connectors",
    ),
    Figure(
        name="late-price-files",
        title="Price files that are late",
        after=TOLD_AFTER,
        of="src",
        sql=f"""
            SELECT id::text AS id, company_id, name AS about,
                   least(coalesce(file_at, created_at) + expected_hours * interval '1 hour', failing_since) AS since,
                   coalesce(fault, 'no file came') AS detail
            FROM price_sources WHERE {HAS_TROUBLE}
            ORDER BY since
        """,
        what="Sources have brought no price file when it was due, or fail",
        what_to_do="Ask whoever sends the files; fuelroute sources list shows the last fault",
        alert="FuelroutePriceFilesLate",
        summary="{{ $value }} sources have brought no price file when it was due",
        runbook="price-files",
    ),
)
FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _FIGURES}
