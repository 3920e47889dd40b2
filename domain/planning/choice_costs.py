"""The rules that tell which plans a driver has had, and which of his choices have cost something.

Commands load this module, so it imports nothing."""


def had_by_driver(plan: str) -> str:
    """SQL that tells if the driver has had a plan of his route: its message was delivered, or he asked for it himself
    on his page, by a choice or a refusal, and the page shows it to him at once."""
    return (
        f"(coalesce({plan}.cause ? 'takenByDriver', false) OR EXISTS (SELECT FROM messages told"
        f" WHERE told.plan_id = {plan}.id AND told.status IN ('sent', 'suppressed')))"
    )


COUNTS = f"""(c.status = 'chosen' AND EXISTS (
    SELECT FROM plans made JOIN routes of_choice ON of_choice.id = made.route_id AND of_choice.revision = made.revision
    WHERE made.id = c.made_plan_id) AND coalesce((
        SELECT coalesce((instead.cause->>'fuelStopsPassed')::int, 0) FROM plans instead
        WHERE instead.route_id = c.route_id AND instead.id > c.made_plan_id AND instead.document IS NOT NULL
          AND instead.cause->>'choice' IS DISTINCT FROM c.id::text
          AND {had_by_driver("instead")}
        ORDER BY instead.id LIMIT 1), 1) > 0)"""
"""SQL of a choice `c` whose extra cost counts on its trip: the driver has it, or had it until its first fuel stop was
behind him. One that another plan replaced before that has cost nothing."""
