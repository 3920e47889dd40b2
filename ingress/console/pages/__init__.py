"""The console's pages: one module for each page, with its addresses and the roles that they are for."""
