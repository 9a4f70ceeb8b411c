"""The person at the terminal: questions, answers, and Ctrl-C."""
