"""Quarterly fuel tax (International Fuel Tax Agreement): miles and gallons by state."""
