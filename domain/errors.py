"""The bases of failures that a person can do something about."""


class FuelrouteError(Exception):
    """Its text is one sentence that says what is wrong and what to do. Commands print it and exit with status 1."""


class Unknown(FuelrouteError):
    """The company has nothing by the name or id that was given. The console answers 404."""
