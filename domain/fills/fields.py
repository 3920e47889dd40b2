"""The fields of a purchase, and the usual names of their columns in files of cards that have no profile."""

import re

from domain.files.products import Fuel
from domain.files.profiles import CellKind, RecordField, RecordFields
from domain.fills.wide_rows import WIDE_FUELS

GALLONS = re.compile(
    r"(?:U\.?S\.?[ _]?)?G(?:AL?S?|ALL?ONS?)?\.?|USG|UG|GAL(?:LON)?S? ?\(U\.?S\.?\)|GL[LN]?", re.IGNORECASE
)
LITRES = re.compile(r"L(?:T|TR|TRS|IT|ITS|ITERS?|ITRES?)?\.?", re.IGNORECASE)
_MEASURES = re.compile(rf"{GALLONS.pattern}|{LITRES.pattern}|EA\.?|EACH|QTS?\.?|QUARTS?|UNITS?", re.IGNORECASE)
"""Units of quantities, which a column `Unit` has where another one names the trucks."""


def _field(
    name: str,
    label: str,
    kind: CellKind,
    usual_names: str,
    *,
    is_alone: bool = False,
    other_values: re.Pattern[str] | None = None,
    lookalikes: tuple[str, str] = ("", ""),
) -> RecordField:
    """A field with the names of its columns, divided by bars. `lookalikes` are names of other columns that people take
    for it, and why they are not read."""
    others, fault = lookalikes
    named, taken = usual_names.split("|"), filter(None, others.split("|"))
    return RecordField(name, label, kind, tuple(named), is_alone, other_values, tuple(taken), fault)


def _as_amount(tax: str) -> str:
    """Names of the column of a tax in Canada, divided by bars, besides its own."""
    return f"{tax} Amount|{tax} Amt|Total {tax}"


_WIDE_NAMES = {
    "tractor": ("Diesel", "DSL", "Tractor"),
    "diesel_2": ("#2 Diesel", "Diesel 2"),
    "diesel_1": ("#1 Diesel", "Diesel 1"),
    "reefer": ("Reefer", "Reefer Fuel"),
    "def": ("DEF", "Bulk DEF"),
}
"""Names of fuels in columns such as `DEF Gallons`, which stand side by side."""


def _wide_fields() -> tuple[RecordField, ...]:
    """The fields of rows about several fuels: quantity, price and cost of each, before and after the rebate."""
    return tuple(
        RecordField(
            f"{fuel.name}_{suffix}",
            label.format(fuel.label),
            kind,
            tuple(f"{name} {end}" for name in _WIDE_NAMES.get(fuel.name, ()) for end in ends),
        )
        for fuel in WIDE_FUELS
        for suffix, label, kind, ends in _WIDE_COLUMNS
    )


_WIDE_COLUMNS: tuple[tuple[str, str, CellKind, tuple[str, ...]], ...] = (
    ("quantity", "gallons of {}, beside those of other fuels", "number", ("Gallons", "Gals", "Gal", "Qty", "Quantity")),
    (
        "price",
        "price of the {} before the rebate",
        "amount",
        ("Price per Gallon", "Cost per Gallon", "PPG", "Price/Gal", "Price"),
    ),
    ("amount", "cost of the {} before the rebate", "amount", ("Cost", "Amount", "Amt", "Total", "Total Cost")),
    ("net_price", "price of the {} after the rebate", "amount", ()),
    ("net_amount", "cost of the {} after the rebate", "amount", ()),
)
_DIESEL_QUANTITIES = tuple(f"{fuel.name}_quantity" for fuel in WIDE_FUELS if fuel.fuel is Fuel.TRACTOR)
_COSTS = tuple(f"{fuel.name}_{suffix}" for fuel in WIDE_FUELS for suffix, *_ in _WIDE_COLUMNS[1:])

FILL_FIELDS = RecordFields(
    "fills",
    (
        _field(
            "card",
            "card number; its last four digits are kept",
            "code",
            "Card #|Card Number|Card|Card No|Card ID|Fuel Card|Fuel Card Number|Fuel Card ID|Card Last 4"
            "|Card Last Four|Last 4|Card Num|Last Four|Masked Card|Card Ending|Carte|Numero de carte|No de carte"
            "|No carte",
        ),
        _field(
            "date",
            "day, or day and time",
            "text",
            "Transaction Date|Tran Date|Trans Date|Purchase Date|Fuel Date|POS Date|Transaction POS Date"
            "|Local Date|Date/Time|Transaction Date/Time|Date and Time|Transaction Timestamp|Timestamp"
            "|Invoice Date Time (m/d/y time)|Orig. Date|Original Date|Trans Date Time|Refuel Date|Delivered Date"
            "|Delivery Date|Sales Date|Sale Date|Activity Date|Transaction Time"
            "|Date de transaction|Date transaction|Date d'achat",
            lookalikes=(
                "Post Date|Posted Date|Posting Date|Date Posted|Posted|Posted On|Settlement Date|Settled Date"
                "|Process Date|Processed Date|Invoice Date|Billing Date|Billed Date|Bill Date|Statement Date",
                "is the day of booking, maybe days after the purchase, and fills are matched to trips by the day of "
                "purchase: export that, too",
            ),
        ),
        _field(
            "time",
            "time on the clock of the place",
            "text",
            "Transaction Time|Tran Time|Trans Time|Purchase Time|POS Time|Transaction POS Time|Local Time|Refuel Time"
            "|Sales Time|Sale Time"
            "|Heure",
        ),
        _field(
            "transaction",
            "transaction or invoice number",
            "code",
            "Transaction Number|Transaction ID|Transaction #|Trans ID|Trans #|Invoice|Invoice Number|Invoice #"
            "|Reference Number|Ref No|Receipt Number|Receipt No|Ticket Number"
            "|Delivery Ticket Number|Auth Code|Authorization Code|UUID|Invoice No|Transaction Reference"
            "|Ref #|Auth Number|Trans Number|Tran ID|Trans Ref|Transaction Ref|Confirmation Number"
            "|Numero de transaction|No de transaction|No transaction|Facture|No de facture|No facture",
        ),
        RecordField("invoice", "number of the truck stop's receipt, beside the card's own number", "code"),
        _field(
            "driver",
            "driver's name; kept where no unit is named, for cards of drivers",
            "text",
            "Driver Name|Employee Name|Cardholder|Cardholder Name|Chauffeur|Conducteur|Nom du chauffeur"
            "|Nom du conducteur",
        ),
        _field(
            "unit",
            "unit number",
            "code",
            "Unit Number|Unit|Unit #|Unit No|Unit ID|Vehicle|Vehicle Number|Vehicle #|Vehicle ID|Vehicle Name"
            "|Custom Vehicle/Asset ID|Customer Unit ID|Truck|Truck Number|Truck #|Truck ID|Tractor|Tractor Number"
            "|Tractor #|Tractor ID|Asset|Asset ID|Asset Number|Asset #|Equipment|Truck Unit|Asset Code|Unit Num"
            "|Truck No|Vehicle No|Equipment Number|Equipment ID|Power Unit"
            "|Camion|Vehicule|Numero d'unite|No d'unite|No unite|Unite",
            other_values=_MEASURES,
        ),
        _field("brand", "chain of the place, where its name lacks it", "text", "Merchant (Brand)|Chain|Merchant Brand"),
        _field(
            "location",
            "name of the place",
            "text",
            "Location Name|Merchant Name|Merchant|Site Name|Site Description|Site Desc|Station Name|Station|Truck Stop"
            "|Truck Stop Name|Fuel Vendor|Vendor|Vendor Name|Store Name|Fuel Stop|Fuel Provider Description|Location"
            "|Site|Store|Merchant Location|Supplier"
            "|Nom de la station|Marchand|Nom du site|Emplacement",
        ),
        _field(
            "code",
            "station code",
            "code",
            "Location ID|Site ID|Site Number|Store Number|Station ID|Truck Stop Code",
        ),
        _field(
            "city",
            "city, or city and state",
            "text",
            "Location City|Merchant City|Site City|Station City|Truck Stop City|Truck Stop City Name|Vendor City"
            "|City, State|City/State|City & State"
            "|Ville",
        ),
        _field(
            "state",
            "state or province; else it is read behind the city or the place",
            "text",
            "State/ Prov|State/Province|Province|Prov|ST|State Code|Location State|Merchant State"
            "|Merchant State / Province|Merchant State/Prov|Location State/Province|Site State|Station State"
            "|Truck Stop State|Vendor State|Merchant ST|State or Province|Prov/ST|Jurisdiction|IFTA Jurisdiction"
            "|State/Region",
        ),
        _field(
            "address",
            "address of the place, for its state",
            "text",
            "Location Address|Merchant Address|Site Address|Vendor Address|Fuel Vendor Address|Adresse",
        ),
        _field(
            "item",
            "product code or name",
            "text",
            "Product|Product Code|Product Type|Prod|Fuel Type|IFTA Fuel Type|Fuel Transaction Type"
            "|Fuel|Fuel Product|Fuel Grade|Grade|Commodity|Description|Prod ID|Product ID"
            "|Produit|Carburant|Type de carburant",
        ),
        _field(
            "item_name",
            "name of the product, beside its code",
            "text",
            "Product Description|Product Name|Item Description|Fuel Item|Description du produit",
        ),
        _field(
            "tank",
            "tractor or reefer, where the product does not tell",
            "text",
            "Reefer Flag|Is Reefer|Tractor/Reefer|Tank Type",
        ),
        _field(
            "quantity",
            "gallons or litres",
            "number",
            "Qty|Gallons|Units|Volume|Total Gallons|Gallons Purchased|Net Gallons|Gals|Gal|Fuel Quantity"
            "|Fuel Qty|Fuel Qty Gallons|Delivered Qty|Fuel Volume|Litres|Liters|Litres Purchased|Liters Purchased|Vol"
            "|Fuel Gallons|Qty Gallons|Quantity Purchased"
            "|Quantite|Qte|Nombre de litres",
        ),
        _field(
            "volume_unit",
            "unit of the quantity, G or L",
            "text",
            "UOM|Unit of Measure|Measure|Volume Unit|Volume Units|Fuel Volume Units|Fuel Unit|Quantity Unit|Qty Unit"
            "|Unit Measure|Unit"
            "|Unite de mesure|Unite",
            is_alone=True,
        ),
        _field(
            "price",
            "price of a gallon or litre after discounts",
            "amount",
            "Disc PPU|Net Price|Net PPU|Net PPG|Net Unit Price|Discounted Price|Discounted PPU|Discounted PPG"
            "|Net Price Per Gallon|Price Paid|Final Price|Your Price|Discount PPU|Billed|Billed PPU|Billed Price"
            "|Prix net",
        ),
        _field(
            "retail_price",
            "price of a gallon or litre before discounts",
            "amount",
            "Retail|Retl. Price|Unit Price|Price per Unit|Price per Gallon|Price/Gallon|Price per Gal|Price/Gal|PPU|PPG"
            "|Unit Cost|Cost per Gallon|Pump Price|Retail PPG|Retail PPU|Posted Price|Price per Litre|Price per Liter"
            "|Price per Volume Unit|Price per Fuel Unit|Retail Price|Fuel Price"
            "|Prix unitaire|Prix au litre|Prix par litre|Prix",
        ),
        _field(
            "amount",
            "amount that was paid, after discounts",
            "amount",
            "Total Amount Due|Amount Due|Net Amount|Net Cost|Net Total|Net of Discount|Amt|Final Amount|Final Amt"
            "|Amount Paid|Total Paid|Invoice Total|Total Amount|Transaction Amount|Total Cost|Total|Total Price"
            "|Amount|Fuel Cost|Fuel Amount|Cost|Ext. Price|Extended Price|Purchase Amount|Extended Amount"
            "|Invoice Amount|Line Total|Fuel Total|Total Fuel Amount|Total Due"
            "|Montant net|Montant total|Montant",
        ),
        _field(
            "gross_amount",
            "amount before discounts",
            "amount",
            "Gross Amount|Gross Cost|Gross Total|Gross|Total Fuel Cost|Retail Amount|Retail Total|Retail Cost"
            "|Pump Total|Fuel Cost|Fuel Amount"
            "|Montant brut",
            is_alone=True,
        ),
        _field(
            "discount",
            "discount on the amount",
            "amount",
            "Disc Amt|Discount Amount|Total Discount|Discounts|Savings|Total Savings|Savings Amount|Rabais|Escompte",
        ),
        RecordField("exempt_tax", "tax that was taken off the amount", "amount"),
        _field("gst", "federal tax on top of the price, in Canada", "amount", f"TPS|{_as_amount('GST')}"),
        _field("pst", "provincial tax on top of the price, in Canada", "amount", f"TVP|{_as_amount('PST')}"),
        _field(
            "hst",
            "harmonized tax on top of the price, in Canada",
            "amount",
            f"TVH|{_as_amount('HST')}|GST/HST|HST/GST|TPS/TVH",
        ),
        _field("qst", "tax of Quebec on top of the price", "amount", f"TVQ|{_as_amount('QST')}"),
        _field("fee", "fee of the card, which the amount may include", "amount", "Fees|Transaction Fee|Card Fee"),
        _field("non_fuel_amount", "the part of the amounts that is for no fuel", "amount", "Total Non-Fuel Cost"),
        _field(
            "rebate",
            "rebate on the amount, or for all fuels of a row",
            "amount",
            "Rebate Amount|Fuel Discount|Fuel Discount Amount",
        ),
        _field(
            "currency",
            "currency, USD or CAD; EFS adds the unit of the quantity",
            "text",
            "Currency Code|Transaction Currency|Billable Currency|Currency Type|Cur|Curr|CCY|Devise",
        ),
        _field(
            "canceled",
            "Y on a row that does not count",
            "text",
            "Cancel flag|Voided|Void|Void Flag|Is Void|Is Voided|Canceled|Cancelled|Is Canceled|Is Cancelled|Reversed"
            "|Is Reversed|Reversal Flag|Is Reversal",
        ),
        _field(
            "status",
            "state of the transaction: voided and declined ones do not count",
            "text",
            "Status|Transaction Status|Trans Status|Tran Status|Payment Status|Approval Status|Authorization Status",
        ),
        _field(
            "kind",
            "kind of the transaction: refunds and reversals take a purchase back",
            "text",
            "Transaction Type|Trans Type|Tran Type|Type|Entry Type|Record Type|Purchase Type",
        ),
        *_wide_fields(),
    ),
    (
        ("date",),
        ("unit", "card"),
        ("state", "city", "location", "address"),
        ("quantity", *_DIESEL_QUANTITIES),
        ("amount", "gross_amount", "price", "retail_price", *_COSTS),
    ),
    is_in_dollars=True,
)
"""The fields of a purchase. A file may have its figures in many ways; `paid.py` finds the amount paid."""
