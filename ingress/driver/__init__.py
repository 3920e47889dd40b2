"""The page of a driver's trip, behind the link in a message."""
