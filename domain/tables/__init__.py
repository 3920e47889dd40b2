"""The tables, as SQLModel classes: the one description of the schema that the migrations are checked against. There is
one module for each subject; this one loads them all, so that `SQLModel.metadata` is complete.

Statements elsewhere are plain SQL through psycopg; each stands in the module that owns the table's rules.

Every table of a company's data carries its `company_id`, and its `environment` where there are two of it, for row-level
security and for spreading companies over several databases. An id alone names one row of all companies, so what is
looked up by an id has no company in its key: the entries of the largest indexes would grow by a third.
"""

from domain.tables import accounts, fleet, operations, plans, routes, stations, telematics

__all__ = ["accounts", "fleet", "operations", "plans", "routes", "stations", "telematics"]
