"""The list of companies, for operators."""

from domain.accounts.policy import StoredCompany
from domain.database.listing import Listing

ALL_COMPANIES = Listing(
    StoredCompany,
    "companies",
    scope="true",
    key="id = %(id)s",
    order="name, id",
    searched=("name",),
    retires=True,
)
