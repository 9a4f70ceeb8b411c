"""Flows as the files of a project: found, named, kept, written."""
