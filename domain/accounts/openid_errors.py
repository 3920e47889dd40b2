"""The failures of signing in with an account at the OpenID Connect provider."""

from domain.errors import FuelrouteError


class ProviderAway(FuelrouteError):
    """The provider does not answer, or answers unlike a provider. The text, for the log, says what it did."""


class ProofRefused(FuelrouteError):
    """The provider's answer proves nothing. The text, for the log, says why."""
