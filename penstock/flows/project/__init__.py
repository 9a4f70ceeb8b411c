"""Flows as files of a project: find, name, check, store with a run, and write."""
