"""Pages about vehicles, drivers, stations, connectors, and the meanings of names in pushed routes."""
