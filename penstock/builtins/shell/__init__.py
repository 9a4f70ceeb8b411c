"""Commands of a shell, in the project's folder."""
