"""Conversations without HTTP: requests, the work of their tasks, and what readers see."""
