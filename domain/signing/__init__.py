"""Signed PDF files: the installation's key, and documents of facts and tables that it signs."""
