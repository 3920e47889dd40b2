"""Forms whose page was loaded before somebody else changed what it shows: they would take that change back."""

import hashlib

from ingress.console.refusals import Refused
from ingress.console.signed_in import Page


def state_of(values: object) -> str:
    """A hash of what a page shows. Its form sends it back in the field `seen`."""
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def require_seen(page: Page, values: object, what: str) -> None:
    """Check that the form was filled in beside these values. Raises Refused for any others."""
    if page.form.text("seen") != state_of(values):
        raise Refused(
            409,
            f"Somebody else has changed {what} in the meantime",
            "Nothing was changed. Load the page again, look at it, and make your change there.",
        )
