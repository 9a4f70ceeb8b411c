"""Accounts: API keys, browser sign-ins, and links that open one conversation."""
