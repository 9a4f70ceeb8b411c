"""How `penstock serve` listens: connections within bounds, and how many there may be."""
