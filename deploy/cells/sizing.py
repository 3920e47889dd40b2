"""Calculates the sizing table of README.md: `python -m deploy.cells.sizing`. Change the assumptions to your own."""

from typing import NamedTuple

_DAY = 86_400


class Assumptions(NamedTuple):
    """A fleet's traffic, per truck, and the costs of single things, measured on this machine; README.md says where."""

    seconds_between_positions: float = 30
    routes_a_day: float = 2
    pushes_a_route: float = 1.5
    polls_a_route: float = 144
    """One poll in five minutes for twelve hours; nearly all are answered 304."""
    plans_a_route: float = 1.5
    peak: float = 3
    """The busiest hour compared with the mean of the day. Positions come evenly."""
    position_days: float = 30
    route_days: float = 365

    push_us: float = 415
    position_us: float = 60
    poll_us: float = 200
    plan_us: float = 26_000
    message_us: float = 2_000

    push_database_us: float = 135
    position_database_us: float = 35
    poll_database_us: float = 30
    plan_database_us: float = 5_000
    message_database_us: float = 500

    position_bytes: float = 218
    route_bytes: float = 7_500
    position_log_bytes: float = 300
    push_log_bytes: float = 4_800
    plan_log_bytes: float = 20_000
    used: float = 0.5
    """The part of a core that may be busy in the busiest hour; the rest is for slow hours, repairs and catching up."""


class Need(NamedTuple):
    trucks: int
    positions: float
    pushes: float
    polls: float
    plans: float
    cores: float
    database_cores: float
    memory_gb: float
    disk_gb: float
    disk_gb_without_positions: float
    log_mb_a_second: float


def need_of(trucks: int, given: Assumptions) -> Need:
    """The need in the busiest hour. Memory is for the processes, with PostgreSQL's cache."""
    positions = trucks / given.seconds_between_positions
    routes = trucks * given.routes_a_day / _DAY * given.peak
    pushes, polls = routes * given.pushes_a_route, routes * given.polls_a_route
    plans = routes * given.plans_a_route
    work = (
        (pushes, given.push_us, given.push_database_us),
        (positions, given.position_us, given.position_database_us),
        (polls, given.poll_us, given.poll_database_us),
        (plans, given.plan_us, given.plan_database_us),
        (plans, given.message_us, given.message_database_us),
    )
    cores = sum(rate * cost for rate, cost, _ in work) / 1e6 / given.used
    database_cores = sum(rate * cost for rate, _, cost in work) / 1e6 / given.used
    of_positions = trucks * _DAY / given.seconds_between_positions * given.position_days * given.position_bytes / 1e9
    of_routes = trucks * given.routes_a_day * given.route_days * given.route_bytes / 1e9
    log = positions * given.position_log_bytes + pushes * given.push_log_bytes + plans * given.plan_log_bytes
    processes_gb = 0.75 + 0.1 * (cores - database_cores) / given.used
    cache_gb = 0.25 + trucks * (8_192 * 2 + 10 * 7_500) / 1e9
    return Need(
        trucks,
        positions,
        pushes,
        polls,
        plans,
        cores,
        database_cores,
        processes_gb + cache_gb,
        of_positions + of_routes,
        of_routes,
        log / 1e6,
    )


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def main() -> None:
    """Prints the table."""
    print("| " + " | ".join(name.replace("_", " ") for name in Need._fields) + " |")
    print("|" + "---|" * len(Need._fields))
    for trucks in (1_000, 10_000, 100_000, 1_000_000):
        print("| " + " | ".join(map(_shown, need_of(trucks, Assumptions()))) + " |")


if __name__ == "__main__":
    main()
