"""Commands for operators: copies of a project's data, and what is kept of it."""
