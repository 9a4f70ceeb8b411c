"""The built-in tools, one file per family, named here and nowhere else."""
