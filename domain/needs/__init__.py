"""The needs of companies and of operators, each declared once."""
