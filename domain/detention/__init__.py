"""Detention: how long trucks were kept at their stops beyond the free time, and the evidence for a claim."""
