"""Vehicles, drivers and mappings, and how a route's references are matched to them."""
