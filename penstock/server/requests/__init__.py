"""What requests have in common: cookies, rates, bodies, lists, and how they are refused."""
