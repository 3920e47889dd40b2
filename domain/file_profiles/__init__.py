"""Files of vendors: their columns, read as fields of ours."""
