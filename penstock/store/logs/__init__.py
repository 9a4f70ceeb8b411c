"""The event logs: the port, its SQL implementation, leases, quarantine and live text."""
