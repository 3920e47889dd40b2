"""The fuel plans of routes: the first one, its reviews and replans, and the delivery of their messages."""
