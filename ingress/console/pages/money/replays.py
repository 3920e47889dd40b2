"""The pages Replay: a question about the driven trips of some months, its progress, and its result with its file."""

from typing import Any

from starlette.responses import Response

from domain.accounts.companies import read_plan_policy
from domain.accounts.policy import Policy
from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor
from domain.contract.captions import captioned_fields
from domain.errors import FuelrouteError
from domain.files.csvfiles import write_records
from domain.ids import shown_id
from domain.replay.export import REPLAY_BASIS, REPLAYED_TRIP_COLUMNS, totals_rows, trip_row
from domain.replay.networks import deals_of, known_brands, never_used
from domain.replay.portions import results_of
from domain.replay.replays import (
    REPLAYS,
    ReplayProgress,
    StoredReplay,
    TooManyReplays,
    newest_replays,
    progress_of,
    resume_replay,
    start_replay,
    stop_replay,
)
from domain.replay.results import LINE_KINDS, ReplaySummary
from domain.replay.solving import OUTCOMES_IN_WORDS, TripOutcome
from domain.replay.terms import ALL_DEALS, QUOTES, Terms, parse_terms, replay_terms
from domain.wording import sentence
from ingress.console.addresses import action_at, as_download, in_report_threads, page_at
from ingress.console.downloads import Download
from ingress.console.refusals import Refused
from ingress.console.replay_chart import draw_gallons
from ingress.console.report_choices import named_spans, span_of
from ingress.console.signed_in import Page, named_in_address, see_other

_VALUES = captioned_fields(
    Policy,
    *("reserve_percent", "end_fuel_percent", "min_purchase_gallons", "stop_cost", "max_detour_miles", "max_stops"),
)
"""The values of the policy that the form offers; further ones are typed as terms."""
LISTED = 50
SHOWN_LINES = 50
_FIGURES = {
    "cost": ("Fuel and stops", "$"),
    "at_pumps": ("At the pumps", "$"),
    "gallons": ("Gallons", ""),
    "stops": ("Fuel stops", ""),
    "minutes_of_stops": ("Minutes of fuel stops", ""),
    "miles_off_the_road": ("Miles off the road", ""),
    "gallons_left": ("Gallons left at the destinations", ""),
    "trips_below_reserve": ("Trips below the reserve, expected", ""),
}


def show(page: Page) -> Response:
    """The form, and the replays that were asked for."""
    return _form(page)


def _form(page: Page, *, fault: str = "", status: int = 200) -> Response:
    form = page.form
    found = newest_replays(page.connection, page.company_id, LISTED)
    policy = read_plan_policy(page.connection, page.company_id)
    return page.render(
        "replays.html",
        status=status,
        section="replay",
        fault=fault,
        tenant=page.tenant,
        replays=[(one, _progress(page, one), one.read_terms) for one in found],
        may_ask=page.session.role in MAY_EDIT_POLICY,
        fields=_VALUES,
        policy=policy._asdict(),
        typed={name: form.text(name, most=2_000) for name in (*(one.name for one in _VALUES), *_TEXTS)},
        chosen={name: form.all(name) for name in ("without_brand", "without_deal")},
        brands=known_brands(page.connection),
        deals=deals_of(page.connection, page.company_id),
        names={ALL_DEALS: "every deal", QUOTES: "net prices of price files"},
        spans=named_spans(page),
    )


def _progress(page: Page, replay: StoredReplay) -> ReplayProgress | None:
    """The progress; None for a replay that is finished, as nearly all in a list are."""
    return progress_of(page.connection, replay.id) if replay.finished_at is None else None


_TEXTS = ("from", "to", "discount_brand", "discount", "more", "against")


def ask(page: Page, by: Actor) -> Response:
    """Store a replay. Terms that make no sense are told above the form."""
    form = page.form
    try:
        policy = read_plan_policy(page.connection, page.company_id)
        weighs_deals = form.text("ask") == "deals"
        before, after = (Terms(), Terms()) if weighs_deals else (parse_terms(_listed(page, "against")), _after(page))
        terms = replay_terms(policy, before, after, weighs_deals=weighs_deals)
        span = span_of(page)
        replay_id = start_replay(page.connection, page.tenant, span, terms, by, by_workers=True, now=page.now)
    except FuelrouteError as error:
        return _form(page, fault=sentence(str(error)), status=400)
    return see_other(f"/replays/{shown_id('rpl', replay_id)}")


def _after(page: Page) -> Terms:
    form = page.form
    texts = [f"{one.name}={value}" for one in _VALUES if (value := form.text(one.name))]
    texts += [f"without-brand={brand}" for brand in form.all("without_brand")]
    texts += [f"without-deal={name}" for name in form.all("without_deal")]
    if form.text("discount_brand") or form.text("discount"):
        texts.append(f"discount={form.text('discount_brand')}={form.text('discount')}")
    return parse_terms([*texts, *_listed(page, "more")])


def _listed(page: Page, name: str) -> list[str]:
    return [text for text in page.form.text(name, most=2_000).split(";") if text.strip()]


# --- One replay ------------------------------------------------------------------------------------------------


def show_one(page: Page) -> Response:
    replay = named_in_address(page, REPLAYS)
    values = _shown(page, replay)
    if page.is_fragment:
        return page.render("_replay.html", **values)
    return page.render("replay.html", section="replay", **values)


def _shown(page: Page, replay: StoredReplay) -> dict[str, Any]:
    terms, summary = replay.read_terms, replay.read_summary
    values: dict[str, Any] = {
        "replay": replay,
        "shown": shown_id("rpl", replay.id),
        "terms": terms,
        "progress": progress_of(page.connection, replay.id),
        "may_ask": page.session.role in MAY_EDIT_POLICY,
        "summary": summary,
        "basis": REPLAY_BASIS,
    }
    return values if summary is None else values | _result(page, replay, summary)


def _result(page: Page, replay: StoredReplay, summary: ReplaySummary) -> dict[str, Any]:
    kind = page.form.choice("by", LINE_KINDS) or "chain"
    return {
        "kind": kind,
        "kinds": LINE_KINDS,
        "lines": summary.lines[kind][:SHOWN_LINES],
        "chart": draw_gallons(summary.lines["chain"]),
        "figures": [(*_FIGURES[row["figure"]], row) for row in totals_rows(summary)],
        "left_out": [
            (OUTCOMES_IN_WORDS[outcome], count)
            for outcome, count in summary.left_out.items()
            if outcome not in (TripOutcome.INFEASIBLE, TripOutcome.FEASIBLE)
        ],
        "infeasible": summary.outcomes.get(TripOutcome.INFEASIBLE, 0),
        "feasible": summary.outcomes.get(TripOutcome.FEASIBLE, 0),
        "unused": never_used(page.connection, replay.company_id, summary, **replay.days)
        if replay.read_terms.weighs_deals
        else [],
    }


def stop(page: Page, by: Actor) -> Response:
    replay = named_in_address(page, REPLAYS)
    stop_replay(page.connection, page.company_id, replay.id, by, now=page.now)
    return see_other(f"/replays/{shown_id('rpl', replay.id)}")


def resume(page: Page, by: Actor) -> Response:
    replay = named_in_address(page, REPLAYS)
    try:
        resume_replay(page.connection, page.company_id, replay.id, by, by_workers=True, now=page.now)
    except TooManyReplays as refused:
        raise Refused(409, "This replay cannot go on now", sentence(str(refused))) from None
    return see_other(f"/replays/{shown_id('rpl', replay.id)}")


def export(page: Page) -> Response:
    """The difference trip by trip as a CSV file, once the replay is finished."""
    replay = named_in_address(page, REPLAYS)
    if replay.finished_at is None:
        raise Refused(400, "This replay is not finished", "Its file can be downloaded once all trips are solved.")
    rows = map(trip_row, results_of(page.connection, replay.id))  # a few portions in memory at a time
    name = f"replay-{replay.first_day}-{replay.last_day}.csv"
    return Download(name, lambda file: write_records(file, REPLAYED_TRIP_COLUMNS, rows))


ADDRESSES = [
    page_at("/replays", show, run=in_report_threads),
    action_at("/replays", ask, by=MAY_EDIT_POLICY, run=in_report_threads),
    page_at("/replays/{id}", show_one),
    page_at("/replays/{id}/trips.csv", export, run=as_download),
    action_at("/replays/{id}/stop", stop, by=MAY_EDIT_POLICY),
    action_at("/replays/{id}/resume", resume, by=MAY_EDIT_POLICY),
]
