"""Visits of steps: where one takes place, and what is done in it, by the kind of its step."""
