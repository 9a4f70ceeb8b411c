"""Opens a project as a Runtime: the one package that constructs and connects all parts."""
