"""Tells people of a company when something needs them, and when that is over."""
