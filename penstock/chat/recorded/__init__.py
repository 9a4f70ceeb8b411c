"""Recorded tasks: read them, continue a copy of one, and take back what one did."""
