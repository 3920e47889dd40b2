"""Replays: the driven trips of a quarter, solved again under another policy, network or deals."""
