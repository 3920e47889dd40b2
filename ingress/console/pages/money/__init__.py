"""Prices, fills, savings, fuel tax."""
