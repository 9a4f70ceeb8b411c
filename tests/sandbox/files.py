"""Files of a script that stand in a dict."""

from collections.abc import Iterable, Mapping

from penstock.sandbox.reading.folder import ReadFailure


class InMemory:
    """Files by name; counts how often each is read, and may change with every reading."""

    def __init__(self, files: Mapping[str, str | bytes | list[str]]) -> None:
        self._files = files
        self.readings: list[str] = []

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        self.readings.append(name)
        found = self._files.get(name)
        if found is None:
            return ReadFailure.MISSING
        if isinstance(found, list):
            found = found.pop(0)
        return (found if isinstance(found, bytes) else found.encode())[:most]

    def names(self) -> Iterable[str]:
        return list(self._files)
