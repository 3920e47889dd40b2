"""The bases of failures that a person can do something about."""


class FuelrouteError(Exception):
    """An error with a sentence for people: what is wrong and what to do. Commands print it and exit with status 1."""


class Unknown(FuelrouteError):
    """The company has nothing by the given name or id. The console answers 404."""
