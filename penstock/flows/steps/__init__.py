"""Kinds of steps: one file each. What a visit needs, and the events about it."""
