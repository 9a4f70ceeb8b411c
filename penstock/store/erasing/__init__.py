"""Erasing at a person's wish: what goes, what stays, and what is overwritten on disk."""
