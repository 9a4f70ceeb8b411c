"""The costs of penstock and of its peers, measured by one harness on one machine."""
