"""Checks of a flow beyond its text, one subject per file."""
