"""Events: the structs that a log stores, their parts, and their JSON form."""
