"""Tools of others, and ours to others."""
