"""Trials: one tool runs for real, except for what a mocks file replaces."""
