"""Handbooks: folders that an agent reads file by file."""
