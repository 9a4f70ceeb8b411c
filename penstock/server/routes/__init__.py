"""One file per resource: what it takes, what it answers; and what several of them share."""
