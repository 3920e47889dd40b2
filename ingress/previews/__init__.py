"""Previews of loads, computed in processes of their own, so that pushes and pages wait for none."""
