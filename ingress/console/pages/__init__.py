"""The console's pages: one module for each page or each pair that belongs together."""
