"""Conversations as a Python program holds them: replies, runs and their events."""
