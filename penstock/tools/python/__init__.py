"""Tools that are Python functions: from hints and docstrings to calls."""
