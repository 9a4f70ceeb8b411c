"""How a Python program opens a project: in `async with`, awaited, or without async."""
