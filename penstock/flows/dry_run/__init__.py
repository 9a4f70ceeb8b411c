"""Dry runs: try every path through a flow in memory, without models, tools or commands."""
