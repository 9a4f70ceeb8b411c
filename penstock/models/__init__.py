"""Requests to models, and their streamed replies."""
