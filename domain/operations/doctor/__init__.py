"""`fuelroute doctor`: checks servers, settings and the invariants of the data. It reads, and changes nothing."""
