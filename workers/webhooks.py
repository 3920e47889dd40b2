"""The webhooks queue: delivers events to the endpoints of companies. The work is done in `webhook_couriers`."""

from uuid import UUID

import dramatiq

from workers.context import Context
from workers.webhook_couriers import WebhookCouriers


def register(broker: dramatiq.Broker, context: Context) -> None:
    couriers = WebhookCouriers(context)
    broker.add_middleware(couriers)

    @dramatiq.actor(broker=broker, actor_name="webhooks.deliver", queue_name="webhooks")
    def deliver(endpoint_id: str, company_id: str) -> None:
        """Wakes the courier and ends at once. A job that waited for endpoints would keep a thread from other companies
        for seconds, and the claims in the database say what is under way."""
        couriers.wake(UUID(endpoint_id), UUID(company_id))
