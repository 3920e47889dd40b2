"""The rule that tells which choices of drivers have cost something. Savings and allowances count them.

Commands load this module, so it imports nothing."""

COUNTS = """(c.status = 'chosen' AND EXISTS (
    SELECT FROM plans made JOIN routes of_choice ON of_choice.id = made.route_id AND of_choice.revision = made.revision
    WHERE made.id = c.made_plan_id) AND coalesce((
        SELECT coalesce((instead.cause->>'fuelStopsPassed')::int, 0) FROM plans instead
        WHERE instead.route_id = c.route_id AND instead.id > c.made_plan_id AND instead.document IS NOT NULL
          AND instead.cause->>'choice' IS DISTINCT FROM c.id::text
          AND EXISTS (SELECT FROM messages m WHERE m.plan_id = instead.id AND m.status IN ('sent', 'suppressed'))
        ORDER BY instead.id LIMIT 1), 1) > 0)"""
"""SQL of a choice `c` whose extra cost counts on its trip: the driver has it, or had it until its first fuel stop was
behind him. One that another plan replaced before that has cost nothing."""
