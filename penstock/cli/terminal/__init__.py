"""What goes to a terminal: clean texts, tables, findings, and what happens on the way."""
