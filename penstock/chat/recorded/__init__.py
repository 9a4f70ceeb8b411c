"""Recorded tasks: read them from the log, and continue a copy of one from its middle."""
