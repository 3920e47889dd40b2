"""Previews of loads: the fuel of a trip before anybody takes it. Nothing is stored."""
