"""The languages that drivers read: texts, numbers, dates and units."""
