"""Companies and their policy, API keys, and the contacts that messages go to."""
