"""The one base of failures that a person at a terminal can do something about."""


class FuelrouteError(Exception):
    """Its text is one sentence that says what is wrong and what to do. Commands print it and exit with status 1."""
