"""What stands on the command line: options and inputs, and the project that they are about."""
