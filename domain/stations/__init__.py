"""Truck stops, prices, deals and taxes: as they are imported, and as a company sees them along a road."""
