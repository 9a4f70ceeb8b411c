"""Access to conversations: API keys, browser sign-ins, and links to one conversation."""
