"""Writes to the database: values, files, media, subjects of dispatchers, due times."""
