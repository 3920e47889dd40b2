"""What is forgotten after a time, and what is erased on demand."""
