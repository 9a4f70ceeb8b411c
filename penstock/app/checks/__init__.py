"""Checks of a loaded project: types of scripts, offered tools, levels of thinking."""
