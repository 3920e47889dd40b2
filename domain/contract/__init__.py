"""The public API's JSON shapes, the check of bodies and queries against them, and CSV files."""
