"""People at a terminal, one file per command."""
