"""`penstock serve`: the command, its HTTP server, and the limits of connections."""
