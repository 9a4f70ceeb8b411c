"""Care for a whole database: copies of it, what may be deleted, and what is out of order."""
