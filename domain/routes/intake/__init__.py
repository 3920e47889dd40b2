"""How routes come in: pushed, updated, superseded, held and imported; and what a changed fleet does to them."""
