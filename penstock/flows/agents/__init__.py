"""Agents in flows: prompts, materials, and the session of an agent until it calls `finish`."""
