"""Flows at a terminal: one file per command, and how a run is shown."""
