"""The process that asks vendors of telematics for positions."""
