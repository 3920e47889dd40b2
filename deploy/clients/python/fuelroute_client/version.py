"""The version of the client: the first two numbers are those of the service's release that it was made for."""

__version__ = "1.0.0"
