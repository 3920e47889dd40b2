"""The outcome of the fuel stops that drivers were told, and the cost of refusals."""
