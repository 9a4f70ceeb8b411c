"""Tasks that calls start, child tasks and runs of flows, and what their ends cause."""
