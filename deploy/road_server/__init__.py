"""`fuelroute roads serve`: a Valhalla server over the operator's own extract of OpenStreetMap."""
