"""How routes move on: they follow their trucks, and what dispatchers enter for them."""
