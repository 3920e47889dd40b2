"""Files that people and vendors bring: tables in CSV and Excel, their columns, their rows."""
