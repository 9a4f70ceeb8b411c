"""Trials: one tool runs against a mocks file, or a recorded task runs again, in memory."""
