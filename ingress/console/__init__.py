"""The console: pages for the people beside the API, served by a process of its own."""
