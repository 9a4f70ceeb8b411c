"""Run a stranger's script, blind but for the bridge."""
