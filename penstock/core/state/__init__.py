"""What tools keep: the owner of a value, the addresses of files, and changes to the stores."""
