"""How long from the fix that tells of the first stop to the message in the outbox: real processes, an idle system.

    .venv/bin/python -m tests.benchmarks.arrival_to_message

Prints the median, the least and the most of 20, measured by the database's clock from just before the fix is posted
to the stored time of the message. What bounds it: three hand-overs between worker processes, a commit each.
"""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from deploy.embedded import EmbeddedPostgres, EmbeddedRedis, running
from domain.migrations import migrate
from domain.settings import Settings
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.pipeline.world import messages_of, store_prices
from tests.service import eventually, running_service

ROUNDS = 20


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(EmbeddedPostgres(Path(folder))) as database_url,
        running(EmbeddedRedis(Path(folder))) as redis_url,
    ):
        migrate(database_url)
        settings = Settings(data=Path(folder), database_url=database_url, redis_url=redis_url)
        processes = ("ingress", "imports", "arrivals", "plans", "messages", "scheduler")
        with running_service(settings, Path(folder), processes=processes) as service:
            store_prices(service)
            seconds = []
            for number in range(ROUNDS + 1):
                with service.new_tenant() as client:
                    body = route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])
                    route_id = client.push(body).json()["id"]
                    client.post_fixes(JOLIET, count=1, fuelPercent=40)
                    time.sleep(0.2)
                    posted = datetime.now(UTC)
                    client.post_fixes(JOLIET, count=1, fuelPercent=40)
                    client.wait_for(route_id, "active")
                    (message,) = eventually(lambda: messages_of(client, route_id), bool)  # noqa: B023 (called at once)
                    if number:  # the first one loads the roads
                        seconds.append((message.sent_at - posted).total_seconds())
    print(
        f"first stop to message, {ROUNDS} routes: median {statistics.median(seconds) * 1000:.0f} ms, "
        f"{min(seconds) * 1000:.0f} to {max(seconds) * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
