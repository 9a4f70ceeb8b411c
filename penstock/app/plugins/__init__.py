"""Plugins: what is installed or brought, and what it may register."""
