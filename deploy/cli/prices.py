"""Price files of vendors, the prices that wait for a person, and the sources that files come from."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from deploy.cli.arguments import AsJson, CompanyId, Currency, Unit, acting, read_secret, read_text, rows_file
from deploy.cli.failures import CommandFailed
from deploy.cli.importing import store_file
from deploy.cli.output import finish_import, print_fields, print_table, screen, show, show_sentence
from deploy.cli.storing import locked, transaction
from domain import clock
from domain.accounts.companies import require_company
from domain.accounts.contacts import Contacts
from domain.files.csvfiles import write_rows
from domain.files.kept_profiles import kept_profiles, remove_profile
from domain.files.reading import AUTO
from domain.ids import read_id, shown_id, with_shown_ids
from domain.settings import get_settings
from domain.stations import held_prices, price_sources
from domain.stations.held_prices import HELD_PRICES
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS, with_unit
from domain.stations.price_runs import latest_runs, refused_rows
from domain.stations.price_sources import NewSource, PriceSource, SourceAddress
from domain.stations.price_units import ExchangeRates
from domain.text import printable
from domain.wording import counted

prices_app = typer.Typer(no_args_is_help=True)
sources_app = typer.Typer(no_args_is_help=True)

PriceFile = Annotated[Path, typer.Argument(parser=rows_file, metavar="FILE", help="A CSV or Excel file.")]
ProfileName = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME",
        help=f"The file's profile: {', '.join(BUILT_IN)}, or one that the company keeps; auto recognizes it.",
    ),
]
HeldArgument = Annotated[str, typer.Argument(metavar="HELD_ID", help="The held price, as `prices held` shows it.")]
SourceArgument = Annotated[str, typer.Argument(metavar="SOURCE", help="The source's name.")]


@prices_app.command("import")
def prices_import(
    company_id: CompanyId,
    file: PriceFile,
    profile: ProfileName = AUTO,
    retail: Annotated[
        bool,
        typer.Option(help="Change the retail prices of stations, too, and add stations: all companies share them."),
    ] = True,
    currency: Currency = "",
    unit: Unit = "",
    as_json: AsJson = False,
) -> None:
    """Imports a price file: retail prices of stations, and the company's net prices there.

    Unlikely prices are held for a person: see `prices held`. Rows of other products than diesel are passed over.
    """
    from domain.operations.import_kinds import PricesFile  # loads what stores each kind of file
    from domain.stations.price_polling import price_profile_of

    with transaction() as connection:
        found = with_unit(price_profile_of(connection, company_id, profile, file), currency, unit)
    if profile == AUTO and not as_json:
        screen.print(f"read by the profile {printable(found.name)}", highlight=False)
    prices = PricesFile(
        path=file,
        company_id=company_id,
        profile=found,
        takes_retail=retail,
        limits=OutlierLimits.of(get_settings()),
        file_name=file.name,
        sender=acting().name,
    )
    finish_import(as_json, "prices", store_file(prices, bar="rows", as_json=as_json), profile=found.name)


@prices_app.command("held")
def prices_held(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists the prices that wait for a person, with the reason."""
    with transaction() as connection:
        require_company(connection, company_id)
        rows = [
            {**one._asdict(), "id": shown_id("hld", one.id), "price": f"{one.price:.3f} {one.shown_unit}".strip()}
            for one in held_prices.held_prices(connection, company_id)
        ]
    columns = ("id", "kind", "price", "place", "station_id", "candidates", "reason", "effective_at")
    show(as_json, {"data": rows}, lambda: print_table(rows, *columns))


@prices_app.command("show")
def prices_show(company_id: CompanyId, held_id: HeldArgument, as_json: AsJson = False) -> None:
    """Shows a price that waits for a person."""
    with locked(HELD_PRICES, company_id, held_id) as (_, held):
        document = with_shown_ids(held._asdict(), id="hld")
    show(as_json, document, lambda: print_fields(document))


@prices_app.command("accept")
def prices_accept(
    company_id: CompanyId,
    held_id: HeldArgument,
    station: Annotated[str, typer.Option(help="The station that is meant, where the file does not tell.")] = "",
    reason: Annotated[str, typer.Option(help="Why it is right, for the audit log.")] = "",
    as_json: AsJson = False,
) -> None:
    """Uses a held price."""
    with transaction() as connection:
        held_prices.accept_price(
            connection,
            company_id,
            HELD_PRICES.read_id(held_id),
            acting(reason),
            station_id=station,
            may_change_retail=True,
            now=clock.now(),
            rates=ExchangeRates.of(get_settings()),
        )
    show_sentence(as_json, {"id": held_id, "status": "accepted"}, f"accepted {held_id}")


@prices_app.command("refuse")
def prices_refuse(
    company_id: CompanyId,
    held_id: HeldArgument,
    reason: Annotated[str, typer.Option(help="Why it is wrong, for the audit log.")] = "",
    as_json: AsJson = False,
) -> None:
    """Never uses a held price, not even when its file comes again."""
    with transaction() as connection:
        held_prices.refuse_price(connection, company_id, HELD_PRICES.read_id(held_id), acting(reason), now=clock.now())
    show_sentence(as_json, {"id": held_id, "status": "refused"}, f"refused {held_id}")


@prices_app.command("profiles")
def prices_profiles(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists the profiles that the company can use."""
    with transaction() as connection:
        require_company(connection, company_id)
        kept = kept_profiles(connection, company_id, PRICE_FIELDS.subject)
    rows = [
        {
            "name": one.name,
            "kept": "by the company" if one in kept else "built in",
            "columns": [f"{field}: {column.names[0]}" for field, column in one.columns.items()],
        }
        for one in (*kept, *BUILT_IN.values())
    ]
    show(as_json, {"data": rows}, lambda: print_table(rows, "name", "kept", "columns"))


@prices_app.command("forget-profile")
def prices_forget_profile(company_id: CompanyId, profile: ProfileName, as_json: AsJson = False) -> None:
    """Removes a profile that the company keeps."""
    with transaction() as connection:
        if not remove_profile(connection, company_id, PRICE_FIELDS.subject, profile):
            raise CommandFailed(f"the company keeps no profile {profile!r}")
    show_sentence(as_json, {"name": profile, "removed": True}, f"removed {printable(profile)}")


@prices_app.command("runs")
def prices_runs(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists the files that came last, with what became of their rows."""
    with transaction() as connection:
        require_company(connection, company_id)
        rows = [
            {
                **one._asdict(),
                "id": shown_id("imp", one.id),
                "source_id": one.source_id and shown_id("src", one.source_id),
            }
            for one in latest_runs(connection, company_id)
        ]
    columns = (
        "id",
        "file_name",
        "profile",
        "actor",
        "ended_at",
        "created",
        "updated",
        "unchanged",
        "held",
        "refused",
        "fault",
    )
    show(as_json, {"data": rows}, lambda: print_table(rows, *columns))


@prices_app.command("refused")
def prices_refused(
    company_id: CompanyId,
    run: Annotated[str, typer.Argument(metavar="RUN_ID", help="The run, as `prices runs` shows it.")],
) -> None:
    """Prints the refused rows of a file as CSV."""
    run_id = read_id("imp", run)
    with transaction() as connection:
        rows = refused_rows(connection, company_id, run_id) if run_id is not None else None
    if rows is None:
        raise CommandFailed(f"the company has no run {run}: see `fuelroute prices runs`")
    import sys

    write_rows(sys.stdout, ["line", "message"], rows)


# --- Sources -----------------------------------------------------------------------------------------------------


@sources_app.command("add")
def sources_add(
    company_id: CompanyId,
    name: SourceArgument,
    kind: Annotated[Literal["folder", "sftp"], typer.Option(help="Where the files are.")],
    path: Annotated[str, typer.Option(help="The folder of the files.")],
    profile: ProfileName = AUTO,
    pattern: Annotated[str, typer.Option(help="The files' names.")] = "*",
    host: Annotated[str, typer.Option(help="The SFTP server.")] = "",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="The port of the SFTP server.")] = 22,
    user: Annotated[str, typer.Option(help="The user there.")] = "",
    host_key: Annotated[
        str, typer.Option(help="The server's public key, as `ssh-keyscan HOST` prints it without the host.")
    ] = "",
    password_file: Annotated[
        Path | None, typer.Option(help="A file whose first line is the password; - reads standard input.")
    ] = None,
    key_file: Annotated[Path | None, typer.Option(help="A file with a private key that has no passphrase.")] = None,
    retail: Annotated[bool, typer.Option(help="Its files change the retail prices of stations, too.")] = True,
    expected_hours: Annotated[
        int, typer.Option(min=1, max=744, help="The source is late when no file has come for so long.")
    ] = price_sources.DEFAULT_EXPECTED_HOURS,
    as_json: AsJson = False,
) -> None:
    """Adds a source. The scheduler looks at it every five minutes."""
    from domain.stations.price_polling import price_profile

    address = SourceAddress(path, pattern, host, port, user, host_key)
    secret = _secret(password_file, key_file)
    with transaction() as connection:
        require_company(connection, company_id)
        if profile != AUTO:
            price_profile(connection, company_id, profile)
        source_id = price_sources.add_source(
            connection,
            company_id,
            NewSource(name, kind, profile, address, secret, retail, expected_hours),
            acting(),
            contacts=Contacts.of(get_settings()),
            now=clock.now(),
        )
    shown = shown_id("src", source_id)
    show_sentence(as_json, {"id": shown, "name": name}, f"added {printable(name)} ({shown})")


def _secret(password_file: Path | None, key_file: Path | None) -> str | None:
    if password_file is not None and key_file is not None:
        raise CommandFailed("give a password or a key, not both")
    if password_file is not None:
        return read_secret(password_file)
    return read_text(key_file) if key_file is not None else None


@sources_app.command("list")
def sources_list(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists the company's sources, with their last file and fault."""
    now = clock.now()
    with transaction() as connection:
        require_company(connection, company_id)
        rows = [_shown(one, now) for one in price_sources.SOURCES.all(connection, company_id)]
    columns = ("name", "kind", "profile", "place", "state", "looked_at", "file_at", "fault")
    show(as_json, {"data": rows}, lambda: print_table(rows, *columns))


def _shown(one: PriceSource, now: Any) -> dict[str, Any]:
    place = one.place
    late = one.late_since(now)
    server = f"{place.user}@{place.host}:{place.port} " if place.host else ""
    return {
        "id": shown_id("src", one.id),
        "name": one.name,
        "kind": one.kind,
        "profile": one.profile,
        "place": f"{server}{place.path}/{place.pattern}",
        "state": "paused" if one.paused_at else "late" if late else "failing" if one.failing_since else "on time",
        "looked_at": one.looked_at,
        "file_at": one.file_at,
        "fault": one.fault,
        "failing_since": one.failing_since,
    }


@sources_app.command("test")
def sources_test(company_id: CompanyId, name: SourceArgument, as_json: AsJson = False) -> None:
    """Lists the files of a source, and imports nothing."""
    from domain.stations.price_fetching import open_source

    with transaction() as connection:
        source = price_sources.read_source(connection, company_id, name)
    with open_source(source, Contacts.of(get_settings()).open(source.secret)) as opened:
        files = [
            {"name": one.name, "size_bytes": one.size_bytes, "modified_at": one.modified_at} for one in opened.files()
        ]
    show(as_json, {"data": files}, lambda: print_table(files, "name", "size_bytes", "modified_at"))


@sources_app.command("run")
def sources_run(company_id: CompanyId, name: SourceArgument, as_json: AsJson = False) -> None:
    """Looks at a source now, twice within three seconds: a file whose size and time stay the same is imported."""
    import time

    from domain.stations.price_polling import poll_source

    settings = get_settings()
    files, waiting, fault = 0, 0, None
    for turn in range(2):
        if turn:
            time.sleep(3)
        with transaction() as connection:
            source = price_sources.read_source(connection, company_id, name)
        poll = poll_source(
            transaction,
            source,
            contacts=Contacts.of(settings),
            limits=OutlierLimits.of(settings),
            now=clock.now(),
            retry=not turn,
        )
        files, waiting, fault = files + poll.files, poll.waiting, poll.fault
        if fault or not waiting:
            break
    result = {"files": files, "waiting": waiting, "fault": fault}
    show_sentence(as_json, result, f"{counted(files, 'file', 'files')} taken, {waiting} still being written")
    if fault:
        raise CommandFailed(fault)


@sources_app.command("pause")
def sources_pause(company_id: CompanyId, name: SourceArgument, as_json: AsJson = False) -> None:
    """Looks at a source no more, until it is resumed. It is never late."""
    with transaction() as connection:
        source = price_sources.read_source(connection, company_id, name)
        price_sources.pause_source(connection, source, acting(), now=clock.now())
    show_sentence(as_json, {"name": name, "paused": True}, f"paused {printable(name)}")


@sources_app.command("resume")
def sources_resume(company_id: CompanyId, name: SourceArgument, as_json: AsJson = False) -> None:
    """Looks at a paused source again, at once."""
    with transaction() as connection:
        source = price_sources.read_source(connection, company_id, name)
        price_sources.resume_source(connection, source, acting())
    show_sentence(as_json, {"name": name, "paused": False}, f"resumed {printable(name)}")


@sources_app.command("remove")
def sources_remove(company_id: CompanyId, name: SourceArgument, as_json: AsJson = False) -> None:
    """Removes a source with its password. The prices that it brought stay."""
    with transaction() as connection:
        source = price_sources.read_source(connection, company_id, name)
        price_sources.remove_source(connection, source, acting())
    show_sentence(as_json, {"name": name, "removed": True}, f"removed {printable(name)}")
