"""The definition of an agent in a program: its options, its instructions and its tools."""
