"""Calls outside of a model's turn: direct calls, slash commands, agents that work for a call."""
