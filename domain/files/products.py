"""Tells tractor diesel from reefer fuel, DEF and everything else that is sold, by the product's code and name.

Purchases of fuel cards and lists of prices name products in the same ways. An unknown product stays unknown; nothing is
guessed."""

import re
import unicodedata
from enum import StrEnum
from functools import lru_cache


class Fuel(StrEnum):
    """The kind of a product. Only tractor diesel is compared with plans and counts for fuel tax."""

    TRACTOR = "tractor"
    REEFER = "reefer"
    DEF = "def"
    OTHER = "other"
    """Gasoline, gas, diesel for the farm or the APU, and goods that are no fuel."""
    UNKNOWN = "unknown"
    """A person decides."""


_NO_FUEL = re.compile(
    r"\b(?:CADV|ADVANCE|SCLE|SCALES?|(?<!FUEL )(?<!DIESEL )(?<!HEATING )(?<!FURNACE )(?<!GAS )OILS?|ADD|ADDT"
    r"|(?<!WITH )(?<!W )(?:ADDITIVES?|CONDITIONERS?)|TREATMENT|ANTI ?GEL"
    r"|FEES?|WASH|WASHER|TIRES?|TOLLS?|PARK|PARKING|SHOWERS?|SHWR|REPR|REPAIRS?|PHON|PHONE|FOOD"
    r"|COOLANT|GREASE|BATTERY|BATTERIES|WIPERS?|HYDRAULIC|BRAKES?|GROC|GROCERY|MDSE"
    r"|MERCHANDISE|LUMP|LUMPERS?|WWFL|ANTIFREEZE|ANFR|WIPR|LABR|LABOR|PARTS?"
    r"|(?<!WITH )(?<!W )(?<!NO )(?<!NON )(?<!EX )(?<!SANS )(?<!WITHOUT )(?<!W O )"
    r"[SF]?TAX(?:ES?)?(?! (?:EX\b|EXEMPT|FREE|INCL|PAID))|[FGHPQ]ST"
    r"|SURCHARGE|HUILES?(?! (?:DE |A )?CHAUFFAGE)|ADDITIFS?|RABAIS|REMISE|FRAIS|LAVAGE|LAVE GLACE|TPS|TV[HPQ]"
    r"|DISC|DISCOUNTS?|REBATES?|(?:SUB)?TOTALS?|LUBE|LUBRICANTS?|FILTERS?|PERMITS?|TOW|TOWING|HOTEL|MOTEL|MONEY ?CODE"
    r"|CIGS|TOBC|TOBACCO|ELECTRONICS|MAINTENANCE|ROAD SERVICE|DEPOSIT|SNACKS?|BEVERAGES?)\b"
)
"""Goods and services besides fuel. They are compared first, because a reefer repair, a diesel additive and a tax on
diesel are no fuel."""
_DEF = re.compile(
    r"\b(?:DEF[DCPBGJ]?\d*|BULKDEF|DEFBULK|D E F|(?:DIESEL|DSL) EXH\w*|EXH(?:AUST)? FLU?I?D|AD ?BLUE|BLUE ?DEF"
    r"|AUS ?32|UREA|UREE|(?:FLUIDE|LIQUIDE)(?: \w+){0,2} ECH\w*)\b"
)
_REEFER = re.compile(
    r"\b(?:REEFERS?|RFR|RDSL|RFUEL|R FUEL|DYED|DYE|DYD|ULSR|REEF|REFR|REFRIG\w*|TRU|TRAILERS?|TRLR|TRL|REMORQUES?"
    r"|FRIGO\w*)\b"
)
"""Fuel of the trailer. Truck stops sell it dyed, without road tax."""
_OTHER_FUEL = re.compile(
    r"\b(?:FARM|AG|AGRI|AGRICULTUR\w*|OFF ?(?:RD|ROAD|HIGHWAY|HWY)|NON ?(?:ROAD|HIGHWAY|HWY)|MARKED"
    r"|RED (?:DIESEL|DSL|ULSD?)|(?:DIESEL|DSL|ULSD?) (?:RED|OFF)"
    r"|COLOREE?|TEINTEE?|MARQUEE?|(?:DIESEL|CARBURANT) ROUGE|HORS ROUTE|AGRICOLE|SANS TAXES?|DETAXEE?|MAZOUT|CHAUFFAGE"
    r"|ESSENCE|SANS PLOMB|COLOU?RED|PURPLE|APU|AUX|AUXILIARY|GENSET|GENERATORS?|HEATING|FURNACE|(?<!DIESEL )FUEL OIL"
    r"|MARINE|BOAT|RAIL|LOCOMOTIVE|TAX (?:EX|EXEMPT|FREE)|UNTAXED|(?:NO|WITHOUT|W O) TAX|NON ?TAX(?:ED|ABLE)?"
    r"|UNL\d*|UNLD|UNLR|UNLEADED|ULR|[RMP]UL|GAS|GASOLINE|PETROL|MOGAS"
    r"|ETHANOL|METHANOL|E ?(?:10|15|85)|PROPANE|LPG|CNG|LNG|RNG|KEROSENE|KERO|JET ?A?|AVGAS|HYDROGEN|ELECTRICITY"
    r"|CHARGING|KWH)\b"
)
"""Gasoline, gas, and diesel for which no road tax was paid."""
_TRACTOR = re.compile(
    r"\b(?:ULS[DP]\d*|ULS\d?|ULTRA LOW SUL(?:F|PH)UR|DSL\d?|DIESEL\d?|DIES|DSEL|LSD|D ?[12]|BDSL|TFUEL|T FUEL"
    r"|BIO ?DIESEL|BIOD?|B(?:2|5|10|11|15|20|50|99|100)|TRACTOR|TRACTEUR|RENEWABLE|HVO|RD ?\d\d|R ?99)\b"
)
_WITHOUT_DIESEL: tuple[tuple[Fuel | None, re.Pattern[str]], ...] = (
    (Fuel.OTHER, re.compile(r"\b(?:REG|REGULAR|MID ?GRADE|PLUS|PREMIUM|PREM|SUP|SUPER)\b")),
    (None, re.compile(r"\b(?:CASH|CHECKS?|MISC|MISCELLANEOUS|SUPP|SUPPLIES|SERVICE)\b")),
)
"""Words that decide only in a name without diesel: grades of gasoline, and a service that may be the pump's."""

_NUMBERED = {"020": Fuel.TRACTOR, "021": Fuel.TRACTOR, "033": Fuel.REEFER, "062": Fuel.DEF}
"""Numbers of the list of Conexxus with one meaning at all cards. 001 is left out: it is regular gasoline at WEX and
diesel in exports of EFS."""


def fuel_of_product(code: str | None, name: str | None = None) -> Fuel | None:
    """The kind of fuel of a product, by its code, its name or both; None if it is known to be no fuel. A name counts
    more than a number. Words that contradict each other leave the product unknown."""
    by_name, by_code = _by_words(name or ""), _by_words(code or "")
    if by_name is Fuel.UNKNOWN:
        return by_code if by_code is not Fuel.UNKNOWN else _by_number(code or "")
    if by_code in (by_name, Fuel.UNKNOWN):
        return by_name
    if by_code is Fuel.TRACTOR and by_name in (Fuel.REEFER, Fuel.OTHER):
        return by_name if _TRACTOR.search(_plain(name or "")) else Fuel.UNKNOWN
    return Fuel.UNKNOWN


@lru_cache(maxsize=2_000)  # a file has the same few products in all its rows
def _by_words(text: str) -> Fuel | None:
    words = _plain(text)
    for fuel, pattern in (
        (None, _NO_FUEL),
        (Fuel.DEF, _DEF),
        (Fuel.REEFER, _REEFER),
        (Fuel.OTHER, _OTHER_FUEL),
        (Fuel.TRACTOR, _TRACTOR),
        *_WITHOUT_DIESEL,
    ):
        if pattern.search(words):
            return fuel
    return Fuel.UNKNOWN


def _by_number(code: str) -> Fuel:
    return _NUMBERED.get(code.strip(), Fuel.UNKNOWN)


def _plain(text: str) -> str:
    """The words in capitals without accents, divided by spaces: `DieselExhaustFluid` is three."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    divided = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    apart = re.sub(r"(?<=\d)(?=[A-Z]{3})", " ", divided.upper())
    numbered = re.sub(r"(?:#|\bNO\.?|\bNUMBER) *(?=[12]\b)", " D", apart)
    return re.sub(r"[^A-Z0-9]+", " ", numbered)
