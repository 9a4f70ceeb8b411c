"""What a browser shows: the chat, pages without a script, and how it comes in."""
