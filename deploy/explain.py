"""A plan's explanation for people: the inputs, every candidate, the objective."""

from typing import Any

from rich.console import Console
from rich.table import Table


def print_explanation(explanation: dict[str, Any], screen: Console) -> None:
    inputs = explanation["inputs"]
    facts = Table("input", "value", box=None, pad_edge=False)
    for name, value in inputs.items():
        shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        facts.add_row(name.replace("_", " "), shown)
    screen.print(facts)
    table = Table(title=f"{len(explanation['candidates'])} candidates in the corridor")
    for heading in ("mile", "station", "detour mi", "net $/gal", "gallons"):
        table.add_column(heading, justify="left" if heading == "station" else "right")
    for candidate in explanation["candidates"]:
        gallons = candidate["gallons"]
        table.add_row(
            f"{candidate['mile']:.1f}",
            candidate["station_id"],
            f"{candidate['detour_miles_in']:.1f}",
            f"{candidate['net_price']:.3f}",
            f"{gallons:.1f}" if gallons else "",
            style="bold green" if gallons else None,
        )
    screen.print(table)
    screen.print(f"objective: ${explanation['objective']:.2f} for fuel and stops", highlight=False)
