"""The words of the domain: values, errors, events; no I/O."""
