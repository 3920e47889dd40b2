"""Measures what the second wall costs: the processor time of a push and of a GET, with row-level security and without.

    python -m tests.benchmarks.wall [ROUNDS [SECONDS]]

The same processes serve both rounds of a pair. The policies are switched on or off before each round, and nothing else
differs: one company's requests, or those of many companies that share batches. What the processes do to name the
companies of a transaction is on both sides; `tests.benchmarks.turns` compares it with a commit that had no wall.
"""

import itertools
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from psycopg import sql

from deploy.cli.output import screen
from tests.benchmarks.harness import Bench, Stack, new_progress
from tests.benchmarks.push import pushes
from tests.benchmarks.turns import OURS, Round, Side, Turns, gets, report

OFF, ON = "off", "on"
COMPANIES = 40


def switch(stack: Stack, state: str) -> None:
    """Row-level security of all tables that have a policy, on or off."""
    action = sql.SQL("ENABLE" if state == ON else "DISABLE")
    for row in stack.query("SELECT tablename AS name FROM pg_policies WHERE schemaname = 'public'"):
        with stack.database.transaction() as connection:
            connection.execute(sql.SQL("ALTER TABLE {} {} ROW LEVEL SECURITY").format(sql.Identifier(row.name), action))


def main(rounds: int = 20, seconds: float = 2) -> None:
    results: dict[tuple[str, str], list[Round]] = {}
    with ExitStack() as life:
        progress = life.enter_context(new_progress(screen))
        stack = life.enter_context(Bench(progress).stack("wall"))
        side = Side(life, stack, Path(__file__).parents[2], 1)
        turns = Turns(stack, {OURS: side}, seconds)
        of_many = [pushes(stack, share=2 / COMPANIES) for _ in range(COMPANIES)]
        of_one, mixed = pushes(stack), (next(one) for one in itertools.cycle(of_many))
        loads: list[tuple[str, Iterator[bytes], int, int]] = []
        for companies, requests in (("one company", of_one), (f"{COMPANIES} companies", mixed)):
            turns.measure(OURS, requests, 201, 32)
            polled = gets(stack, requests)
            for connections in (64, 1):
                loads.append((f"push, {connections} connections, {companies}", requests, 201, connections))
                loads.append((f"GET, {connections} connections, {companies}", polled, 200, connections))
        for number in range(rounds):
            for load, requests, expect, connections in loads:
                for state in (OFF, ON) if number % 2 else (ON, OFF):
                    switch(stack, state)
                    turns.measure(OURS, requests, expect, connections, seconds=0.3)  # plans are made anew
                    one = turns.measure(OURS, requests, expect, connections)
                    results.setdefault((load, state), []).append(one)
        switch(stack, ON)
    report(results, OFF, ON)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
