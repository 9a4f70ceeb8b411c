"""Visits of steps: their context, the work of each kind of step, and the events about them."""
