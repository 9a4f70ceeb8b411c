"""Values, files, media and subjects of dispatchers that the database keeps for calls."""
