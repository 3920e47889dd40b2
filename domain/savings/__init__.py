"""What fuel plans save against the average of their corridors: kept for each route, and reported."""
