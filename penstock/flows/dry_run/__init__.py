"""Dry runs: a flow walked every way it can go, with nothing real happening in it."""
