"""The kinds of connectors: each module of this folder has the class of one vendor. A new vendor needs nothing else,
because the commands and the console read its fields."""

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module

from domain.connectors.vendor import Vendor


def _vendors() -> Iterator[type[Vendor]]:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    yield from (one for one in Vendor.__subclasses__() if one.__module__.startswith(f"{__name__}."))


VENDORS: Mapping[str, type[Vendor]] = {
    vendor.kind: vendor for vendor in sorted(_vendors(), key=lambda one: (one.default_url is None, one.title))
}
"""The classes by kind. Vendors with a cloud of their own come first, then those whose server a company names."""
