"""Writes of calls to the database: values, files, media, subjects of dispatchers."""
