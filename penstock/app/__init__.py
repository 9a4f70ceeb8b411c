"""The one place where concrete things meet."""
