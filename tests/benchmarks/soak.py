"""Half the top rate of pushes for a long time, with every process running: nothing may grow."""

import statistics
from collections.abc import Sequence

from domain.queue.jobs import QUEUES
from tests.benchmarks.harness import STOLEN, Bench, Figure, rates
from tests.benchmarks.load import drive, send
from tests.benchmarks.push import pushes

WINDOWS = 30
"""A minute each in the usual half hour; the first sixth is for settling."""
SETTLING = WINDOWS // 6

_TOLERANCE = 1.2
"""The ratio of the last windows to the first settled ones. A smaller ratio is the noise of a machine that has other
things to do."""
_TOLERANCE_MEGABYTES = 5


def run(bench: Bench) -> list[Figure]:
    with bench.stack("soak") as stack:
        requests = pushes(stack)
        addresses = [stack.start_ingress(f"ingress {number}") for number in range(1, max(bench.ingress) + 1)]
        for queue in QUEUES:
            stack.start("workers", "--queues", queue)
        stack.start("scheduler")
        with bench.task("soak: looks for the top rate"):
            top_rates = {
                count: drive(send(addresses[:count], requests, expect=201, seconds=max(bench.seconds, 3))).rate
                for count in bench.ingress
            }
        best = max(bench.ingress, key=lambda count: top_rates[count])
        top, addresses = top_rates[best], addresses[:best]
        memory: dict[str, list[float]] = {name: [] for name in stack.memory()}
        runs = []
        text = f"soak: {bench.minutes:g} minutes of {top / 2:,.0f} pushes/s, {best} ingress"
        with bench.task(text, WINDOWS) as advance:
            for _ in range(WINDOWS):
                seconds = bench.minutes * 60 / WINDOWS
                load = send(addresses, requests, expect=201, seconds=seconds, warm_up=0, per_second=top / 2)
                runs.append(stack.measure(load))
                for name, megabytes in stack.memory().items():
                    memory[name].append(megabytes)
                advance(1)
    p50, p99 = ([run.load.percentile(percent) for run in runs] for percent in (50, 99))
    return [
        Figure(text, "/s", rates(runs)),
        Figure("soak: latency p50", "ms", p50),
        Figure("soak: latency p99", "ms", p99),
        Figure("soak: of one processor, stolen by the host", "%", [run.shares[STOLEN] * 100 for run in runs]),
        Figure("soak: p50 at the end, of that after settling", "x", [_end(p50) / _settled(p50)], at_most=_TOLERANCE),
        Figure("soak: p99 at the end, of that after settling", "x", [_end(p99) / _settled(p99)], at_most=_TOLERANCE),
        *(
            Figure(
                f"soak: memory of {name} grows after settling",
                "MB",
                [_end(series) - _settled(series)],
                at_most=max(_TOLERANCE_MEGABYTES, (_TOLERANCE - 1) * _settled(series)),
                note="MB in each window: " + ", ".join(f"{megabytes:.0f}" for megabytes in series),
            )
            for name, series in memory.items()
        ),
    ]


def _settled(series: Sequence[float]) -> float:
    return statistics.median(series[SETTLING : 2 * SETTLING])


def _end(series: Sequence[float]) -> float:
    return statistics.median(series[-SETTLING:])
