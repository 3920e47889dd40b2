"""The savings of fuel plans against the average of their corridors, stored for each route and reported."""
