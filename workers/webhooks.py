"""The webhooks queue: delivers events to the endpoints of companies. The work is done in `webhook_lanes`."""

from uuid import UUID

import dramatiq

from workers.context import Context
from workers.webhook_lanes import WebhookLanes


def register(broker: dramatiq.Broker, context: Context) -> None:
    lanes = WebhookLanes(context)
    broker.add_middleware(lanes)

    @dramatiq.actor(broker=broker, actor_name="webhooks.deliver", queue_name="webhooks")
    def deliver(endpoint_id: str, company_id: str) -> None:
        """Ends at once. A job that waited for endpoints would keep a thread from other companies for seconds, and the
        claims in the database say what is under way."""
        lanes.wake(UUID(endpoint_id), UUID(company_id))
