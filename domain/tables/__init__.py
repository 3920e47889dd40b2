"""The tables, as SQLModel classes: the one description of the schema that the migrations are checked against. There is
one module for each subject; this one loads them all, so that `SQLModel.metadata` is complete.

Statements elsewhere are plain SQL through psycopg; each stands in the module that owns the table's rules.

Every table of a company's data has the column `company_id`, and the column `environment` where live and sandbox rows
are apart. Both serve row-level security and the spreading of companies over several databases. An id alone names one
row of all companies, so keys by id do not contain the company: the entries of the largest indexes would grow by a
third.
"""

from domain.tables import (
    accounts,
    burn,
    connectors,
    detention,
    driven_lanes,
    driver_answers,
    fills,
    fleet,
    ifta,
    moves,
    notices,
    operations,
    plans,
    replays,
    routes,
    sandbox,
    savings,
    signing,
    stations,
    telematics,
    webhooks,
)

__all__ = [
    "accounts",
    "burn",
    "connectors",
    "detention",
    "driven_lanes",
    "driver_answers",
    "fills",
    "fleet",
    "ifta",
    "moves",
    "notices",
    "operations",
    "plans",
    "replays",
    "routes",
    "sandbox",
    "savings",
    "signing",
    "stations",
    "telematics",
    "webhooks",
]
