"""What a dispatch route is, what may happen to it, and where it is stored. Imports nothing of the other packages."""
