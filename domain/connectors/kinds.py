"""The kinds of connectors: one class for each vendor."""

from collections.abc import Mapping

from domain.connectors.eld import EldGateway
from domain.connectors.geotab import Geotab
from domain.connectors.motive import Motive
from domain.connectors.samsara import Samsara
from domain.connectors.traccar import Traccar
from domain.connectors.vendor import Vendor

VENDORS: Mapping[str, type[Vendor]] = {vendor.kind: vendor for vendor in (Samsara, Motive, Geotab, Traccar, EldGateway)}
"""The classes by kind. A new vendor needs nothing else, because the commands and the console read its fields."""
