"""Trials: one tool, run for real, in a world that a mocks file describes."""
