"""One small file per peer and bench: the fake model and the tool, nothing else."""
