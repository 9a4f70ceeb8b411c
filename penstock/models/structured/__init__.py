"""Schemas of typed output in the form that each provider enforces."""
