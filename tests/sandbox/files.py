"""Files of a script in a dict."""

from collections.abc import Iterable, Mapping

from penstock.sandbox.compiler.script_files import ReadFailure


class InMemory:
    """Files by name; counts the reads of each, and can change with every read."""

    def __init__(self, files: Mapping[str, str | bytes | list[str]]) -> None:
        self._files = files
        self.readings: list[str] = []

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        self.readings.append(name)
        result = self._files.get(name)
        if result is None:
            return ReadFailure.MISSING
        if isinstance(result, list):
            result = result.pop(0)
        return (result if isinstance(result, bytes) else result.encode())[:most]

    def names(self) -> Iterable[str]:
        return list(self._files)
