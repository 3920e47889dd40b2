"""The settings of the service, for people."""

import typer

from deploy.cli.arguments import AsJson
from deploy.cli.output import show_table
from domain.settings import Settings, get_settings
from domain.text import without_secrets

app = typer.Typer()


@app.command("settings")
def list_settings(as_json: AsJson = False) -> None:
    """Lists every setting: its environment variable, its value and its meaning. Passwords are hidden."""
    current = get_settings()
    rows = [
        {
            "variable": f"FUELROUTE_{name.upper()}",
            "value": without_secrets(str(getattr(current, name))) if getattr(current, name) is not None else None,
            "description": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]
    show_table(as_json, rows, "variable", "value", "description")
