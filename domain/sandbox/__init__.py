"""Simulated trucks, which drive routes of the sandbox along the roads of their plans."""
