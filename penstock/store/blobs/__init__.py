"""Large values outside the database: on disk or in a bucket."""
