"""Connectors to vendors of telematics: the process that polls them, and what a company has."""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from deploy.cli.arguments import AsJson, CompanyId, Why, Yes, acting, confirm, read_record_id, read_text
from deploy.cli.failures import CommandFailed
from deploy.cli.output import print_fields, screen, show, show_sentence, show_table
from deploy.cli.storing import locked, transaction, transaction_about
from domain import clock
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import Contacts
from domain.connectors import connectors
from domain.connectors.connectors import CONNECTORS, Connector, ConnectorValues
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import CredentialField, Vendor, VendorFault
from domain.database.connections import Tenant
from domain.ids import shown_id, with_shown_ids
from domain.lifecycle import Environment
from domain.settings import get_settings

app = typer.Typer(invoke_without_command=True)

ConnectorId = Annotated[
    str, typer.Argument(metavar="CONNECTOR_ID", help="The connector's id, as `connectors list` shows it.")
]
Url = Annotated[
    str, typer.Option("--url", metavar="URL", help="The vendor's address, unless it is the usual one of its cloud.")
]
CredentialsFile = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="A file with lines NAME=VALUE, or one JSON object; - is standard input. Otherwise each value comes from"
        " FUELROUTE_CONNECTOR_NAME in the environment, or is asked for.",
    ),
]

_LINE = re.compile(r"([a-z_]+)\s*=\s*(.*)")


@app.callback()
def connectors_process(context: typer.Context) -> None:
    """Runs one process that asks vendors of telematics for positions, unless a command is given. Several may run."""
    if context.invoked_subcommand is not None:
        return
    from deploy.cli.running import serve
    from workers.connectors.process import run

    serve("connectors", get_settings(), run)


@app.command("add")
def connectors_add(
    company_id: CompanyId,
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help=f"One of {', '.join(VENDORS)}.")],
    environment: Annotated[
        Environment, typer.Option("--environment", help="Where the positions come in.")
    ] = Environment.LIVE,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="A name, if there are several of a kind.")] = "",
    url: Url = "",
    credentials: CredentialsFile = None,
    as_json: AsJson = False,
) -> None:
    """Adds a connector, which works at once. Credentials are never arguments: others would see them."""
    settings = get_settings()
    vendor = connectors.vendor_of(kind)
    values = ConnectorValues(kind, _credentials_of(vendor, credentials), name, url)
    with transaction() as connection:
        made = connectors.add_connector(
            connection,
            Tenant(company_id, environment),
            values,
            acting(),
            allowed=AllowedHosts.of_connectors(settings),
            contacts=Contacts.of(settings),
        )
    document = _document(made)
    show(as_json, document, lambda: _print_added(made, vendor))


def _print_added(made: Connector, vendor: type[Vendor]) -> None:
    shown = shown_id("con", made.id)
    screen.print(f"connector {shown}", highlight=False)
    if made.asks:
        screen.print(f"try it: fuelroute connectors test --company {shown_id('cmp', made.company_id)} {shown}")
    if vendor.receives:
        screen.print(f"the vendor sends to: POST /telematics/{shown}", highlight=False)


@app.command("list")
def connectors_list(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists a company's connectors: state, newest position, last error and what to do."""
    from domain.connectors.vendor_vehicles import count_connector_vehicles  # loads the feed of positions

    now = clock.now()
    with transaction_about(company_id) as connection:
        counts = count_connector_vehicles(connection, company_id, now=now)
        found = CONNECTORS.all(connection, company_id)
    rows = []
    for one in found:
        named = counts.get(one.id)
        numbers = {"vehicles": 0, "unmatched": 0, "silent": 0}
        if named is not None:
            numbers = {"vehicles": named.matched, "unmatched": named.unmatched, "silent": named.silent}
        rows.append({**_document(one), **numbers})
    columns = ("id", "environment", "kind", "name", "state", "newest_at", "vehicles", "unmatched", "silent")
    show_table(as_json, rows, *columns, "last_error", "what_to_do", "remark")


@app.command("test")
def connectors_test(company_id: CompanyId, connector_id: ConnectorId, as_json: AsJson = False) -> None:
    """Asks the vendor once, and says what it answered. Nothing is stored. The exit status is 1 if it failed."""
    from domain.connectors.vendor_question import ask_vendor  # loads httpx

    settings = get_settings()
    with locked(CONNECTORS, company_id, connector_id) as (connection, connector):
        access = connectors.read_access(connection, company_id, connector.id, contacts=Contacts.of(settings))
    try:
        answer = asyncio.run(ask_vendor(connector.kind, access, AllowedHosts.of_connectors(settings)))
    except VendorFault as fault:
        _record_test(connector, fault)
        document = {"ok": False, "error": str(fault), "what_to_do": fault.what_to_do}
        show(as_json, document, lambda: print_fields(document))
        raise typer.Exit(1) from None
    _record_test(connector, None)
    show_sentence(as_json, {"ok": True, "answer": answer}, answer)


def _record_test(connector: Connector, fault: VendorFault | None) -> None:
    with transaction() as connection:
        connectors.record_test(connection, connector, acting(), fault=fault)


@app.command("set")
def connectors_set(
    company_id: CompanyId,
    connector_id: ConnectorId,
    url: Url = "",
    credentials: CredentialsFile = None,
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Gives a connector other credentials, and another address where one is named."""
    settings = get_settings()
    with locked(CONNECTORS, company_id, connector_id) as (_, connector):
        vendor = connectors.vendor_of(connector.kind)
    values = _credentials_of(vendor, credentials)
    with locked(CONNECTORS, company_id, connector_id) as (connection, connector):
        connectors.change_access(
            connection,
            company_id,
            connector.id,
            acting(reason),
            credentials=values,
            url=url,
            allowed=AllowedHosts.of_connectors(settings),
            contacts=Contacts.of(settings),
        )
    show_sentence(as_json, {"id": connector_id, "changed": True}, f"changed {connector_id}")


@app.command("pause")
def connectors_pause(
    company_id: CompanyId, connector_id: ConnectorId, reason: Why = "", as_json: AsJson = False
) -> None:
    """Stops asking and taking; the cursor stays."""
    with locked(CONNECTORS, company_id, connector_id) as (connection, connector):
        connectors.pause_connector(connection, company_id, connector.id, acting(reason), now=clock.now())
    show_sentence(as_json, {"id": connector_id, "paused": True}, f"paused {connector_id}")


@app.command("resume")
def connectors_resume(
    company_id: CompanyId, connector_id: ConnectorId, reason: Why = "", as_json: AsJson = False
) -> None:
    """Goes on where it was paused."""
    with locked(CONNECTORS, company_id, connector_id) as (connection, connector):
        connectors.resume_connector(connection, company_id, connector.id, acting(reason))
    show_sentence(as_json, {"id": connector_id, "paused": False}, f"resumed {connector_id}")


@app.command("remove")
def connectors_remove(
    company_id: CompanyId, connector_id: ConnectorId, yes: Yes = False, reason: Why = "", as_json: AsJson = False
) -> None:
    """Forgets a connector and its credentials. Positions stay."""
    with locked(CONNECTORS, company_id, connector_id) as (connection, connector):
        confirm(yes, f"{connector_id} is removed for good")
        connectors.remove_connector(connection, company_id, connector.id, acting(reason))
    show_sentence(as_json, {"id": connector_id, "removed": True}, f"removed {connector_id}")


@app.command("vehicles")
def connectors_vehicles(
    company_id: CompanyId,
    connector_id: ConnectorId,
    only: Annotated[str, typer.Option("--only", metavar="WHAT", help="all, unmatched, silent or doubtful.")] = "all",
    as_json: AsJson = False,
) -> None:
    """Lists the vehicles that the vendor names, and ours."""
    from domain.connectors.vendor_vehicles import list_connector_vehicles

    if only not in ("all", "unmatched", "silent", "doubtful"):
        raise CommandFailed(f"--only: {only!r} is none of all, unmatched, silent, doubtful")
    with locked(CONNECTORS, company_id, connector_id) as (connection, connector):
        found = list_connector_vehicles(connection, company_id, connector.id, only=only, now=clock.now(), limit=10_000)
    rows = [with_shown_ids(one._asdict()) for one in found]
    columns = ("vehicle_key", "name", "vin", "vehicle_id", "unit_number", "matched_by", "newest_at", "doubt")
    show_table(as_json, rows, *columns)


@app.command("link")
def connectors_link(
    company_id: CompanyId,
    connector_id: ConnectorId,
    vehicle_key: Annotated[str, typer.Argument(metavar="VEHICLE_KEY", help="The vendor's id, as `vehicles` shows it.")],
    vehicle: Annotated[
        str, typer.Option("--vehicle", metavar="VEHICLE_ID", help="Our vehicle's id, or `none` to take a link back.")
    ],
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Says which of our vehicles a vendor's vehicle is."""
    from domain.connectors.vendor_vehicles import link_vehicle

    vehicle_id = None if vehicle == "none" else read_record_id("vehicle", vehicle)
    with locked(CONNECTORS, company_id, connector_id) as (connection, connector):
        link_vehicle(connection, company_id, connector.id, vehicle_key, vehicle_id, acting(reason), now=clock.now())
    show_sentence(
        as_json,
        {"vehicle_key": vehicle_key, "vehicle_id": None if vehicle_id is None else vehicle},
        f"{vehicle_key} is {vehicle}",
    )


def _credentials_of(vendor: type[Vendor], file: Path | None) -> dict[str, str]:
    """The values from a file, from the environment, or from the person at the terminal."""
    if file is not None:
        return _read_file(file)
    found = {field.name: value for field in vendor.fields if (value := os.environ.get(_variable(field))) is not None}
    if found:
        return found
    if not sys.stdin.isatty():
        named = ", ".join(_variable(field) for field in vendor.fields)
        raise CommandFailed(f"give the credentials with --credentials FILE, in {named}, or at a terminal")
    for field in vendor.fields:
        screen.print(f"{field.title}: {field.help}", highlight=False)
        text = f"{field.title}{'' if field.required else ' (Enter for none)'}"
        found[field.name] = typer.prompt(text, default="", show_default=False, hide_input=field.secret, err=True)
    return found


def _variable(field: CredentialField) -> str:
    return f"FUELROUTE_CONNECTOR_{field.name.upper()}"


def _read_file(file: Path) -> dict[str, str]:
    """The values in a file. Raises CommandFailed, which quotes nothing of the file, if they cannot be read."""
    text = read_text(file)
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, str])
        except msgspec.MsgspecError:
            raise CommandFailed(f"{file} is no JSON object of texts") from None
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise CommandFailed(f"line {number} of {file} is not NAME=VALUE")
        found[match[1]] = match[2]
    return found


def _document(connector: Connector) -> Mapping[str, Any]:
    values = {**connector._asdict(), "state": connectors.state_of(connector, now=clock.now())}
    return with_shown_ids(values, id="con")
