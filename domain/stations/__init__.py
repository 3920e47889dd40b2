"""Truck stops, prices, deals and taxes: their imports, and the offers to a company along a road."""
