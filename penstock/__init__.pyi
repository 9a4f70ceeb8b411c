HOMES: dict[str, str]
__version__: str
