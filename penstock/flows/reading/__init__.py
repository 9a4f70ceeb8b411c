"""Parses flow files: the document, its inputs, its steps, and the fields of each kind."""
