"""Checks that need the open project: types of scripts, tools that models are offered, thinking."""
