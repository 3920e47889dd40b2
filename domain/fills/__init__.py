"""Purchases of fuel as fuel cards tell of them: imported, matched, compared with the plans."""
