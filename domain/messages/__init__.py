"""Drivers' messages: the text, the outbox, and the gateways."""
