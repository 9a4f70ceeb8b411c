"""A flow file, read: its inputs, its steps by kind, and the fields of each."""
