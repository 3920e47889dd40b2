"""Connectors bring the positions of trucks from the vendors of telematics into the feed."""
