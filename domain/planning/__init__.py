"""The fuel plan: net prices, the corridor of stations along the road, the cheapest feasible purchases, the plan."""
