"""How signing in with an account at the OpenID Connect provider fails."""

from domain.errors import FuelrouteError


class ProviderAway(FuelrouteError):
    """The provider does not answer, or not as a provider does. The text, for the log, says what it did."""


class ProofRefused(FuelrouteError):
    """The provider's answer proves nothing. The text, for the log, says why."""
