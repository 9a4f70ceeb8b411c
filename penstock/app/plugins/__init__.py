"""Plugins, installed or passed by the program, and what they can register."""
