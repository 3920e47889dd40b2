"""Vehicles, drivers, stations, connectors, and what the names in pushed routes mean."""
