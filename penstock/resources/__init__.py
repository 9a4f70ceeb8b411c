"""Values, files, secrets and network access of running tools, each in a Scope."""
