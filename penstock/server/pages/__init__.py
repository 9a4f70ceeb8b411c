"""Pages for browsers: the chat, pages without JavaScript, and sign-in."""
