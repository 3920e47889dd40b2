"""The console's pages: a module for each page, with its addresses and the roles that may use them."""
