"""Agents at work in flows: what each is told and given, and its session until it calls `finish`."""
