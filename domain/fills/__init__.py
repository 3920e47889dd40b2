"""Purchases of fuel from fuel cards' files: imported, matched, compared with the plans."""
