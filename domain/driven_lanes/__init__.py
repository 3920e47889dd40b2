"""Driven lanes: the roads that a company's trucks took between the same stops, and new plans that take them."""
