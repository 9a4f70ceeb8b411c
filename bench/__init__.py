"""What penstock costs, and what its peers cost, measured by one harness on one machine."""
