"""Parses the text of a flow as one mapping: one YAML document, or two between `---` lines."""

from collections.abc import Iterator, Mapping

from penstock.agents.folders import MOST_BYTES
from penstock.manifest.fields import found
from penstock.manifest.yaml_document import (
    FENCE,
    Document,
    SourceMap,
    SourceRange,
    YamlPath,
    parse_yaml,
)

MARKDOWN = "```"
SEVERAL = "yaml-many-documents"
_TOP = SourceRange(line=1, column=1)


class MergedSourceMap(SourceMap):
    """Source map of several documents that are read as one."""

    def __init__(self, parts: Mapping[str, SourceMap], rest: SourceMap) -> None:
        super().__init__()
        self._parts = parts
        """By the first key of a path."""
        self._rest = rest

    def __getitem__(self, path: YamlPath) -> SourceRange:
        """Return the place of a part."""
        return self._of(path)[path]

    def __contains__(self, path: object) -> bool:
        """Whether the part exists."""
        return isinstance(path, tuple) and path in self._of(path)

    def __iter__(self) -> Iterator[YamlPath]:
        """Yield the paths."""
        for key, places in self._parts.items():
            yield from (path for path in places if path and path[0] == key)

    def __len__(self) -> int:
        """Return the number of parts."""
        return sum(1 for _ in self)

    def content(self, path: YamlPath, text: str) -> SourceRange:
        """Return the place of the first character of a text, after its quote or `|`."""
        return self._of(path).content(path, text)

    def _of(self, path: YamlPath) -> SourceMap:
        return self._parts.get(str(path[0]), self._rest) if path else self._rest


def parse_flow(text: str | bytes, file: str) -> Document:
    """Parse the mapping of a flow. Never raises: errors are in `problems`.

    The value is None if the text cannot be parsed.
    """
    document = Document(file=file)
    decoded = _decoded(text, document)
    if decoded is None:
        return document
    if decoded.startswith(MARKDOWN):
        message = "not valid YAML: the file begins with a Markdown fence"
        document.problem("yaml-syntax", message, _TOP, "remove the Markdown fence")
        return document
    document = _joined(decoded, file)
    if document.is_read and not isinstance(document.value, dict):
        at = document.values.get((), _TOP)
        message = f"a manifest must be a mapping, found {found(document.value)}"
        document.problem("yaml-not-mapping", message, at)
    is_several = any(each.code == SEVERAL for each in document.problems)
    if is_several or not document.is_read or not isinstance(document.value, dict):
        document.value = None
    return document


def _decoded(text: str | bytes, document: Document) -> str | None:
    """Return the text without a byte order mark, or None if it is too long or not UTF-8."""
    size = len(text) if isinstance(text, bytes) or len(text) > MOST_BYTES else _size(text)
    if size > MOST_BYTES:
        message = f"the flow has {size} bytes; the limit is {MOST_BYTES}"
        document.problem("file-too-large", message, _TOP)
        return None
    try:
        whole = text.decode() if isinstance(text, bytes) else text.encode().decode()
    except UnicodeDecodeError as error:
        document.problem("file-encoding", f"not UTF-8 at byte {error.start}", _TOP)
        return None
    except UnicodeEncodeError as error:
        before = len(str(text)[: error.start].encode())
        document.problem("file-encoding", f"not UTF-8 at byte {before}", _TOP)
        return None
    return whole.removeprefix("\ufeff")


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _joined(text: str, file: str) -> Document:
    """Parse a plain document, or join the two parts of a fenced one."""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE]
    first = next((number for number, line in enumerate(lines) if _counts(line)), -1)
    match fences:
        case [start, middle] if start == first:
            pass
        case [start, _, third, *_] if start == first:
            document = Document(file=file)
            message = f"a flow has at most two documents; found {len(fences)}"
            document.problem(SEVERAL, message, SourceRange(line=third + 1, column=1))
            return document
        case _:
            return parse_yaml(text, file)
    head = parse_yaml("\n".join(lines[start + 1 : middle]), file, first_line=start + 2)
    rest = parse_yaml("\n".join(lines[middle + 1 :]), file, first_line=middle + 2)
    return _merged(head, rest)


def _counts(line: str) -> bool:
    """Whether a line is neither blank nor a comment."""
    return bool(line.strip()) and not line.startswith("#")


def _merged(head: Document, rest: Document) -> Document:
    """Join two mappings. An empty part adds nothing."""
    document = Document(file=head.file, problems=[*head.problems, *rest.problems])
    document.is_read = head.is_read and rest.is_read
    mappings = [part for part in (head, rest) if part.value is not None]
    for part in mappings:
        if not isinstance(part.value, dict):
            document.value, document.values = part.value, part.values
            return document
    keys: dict[str, SourceMap] = {}
    values: dict[str, SourceMap] = {}
    document.value = {}
    for part in mappings:
        for key, value in part.value.items():
            if key in document.value:
                message = f'key "{key}" appears twice; first at line {keys[key][key,].line}'
                document.problem("yaml-duplicate-key", message, part.keys[key,])
                continue
            document.value[key] = value
            keys[key], values[key] = part.keys, part.values
    document.keys = MergedSourceMap(keys, head.keys)
    document.values = MergedSourceMap(values, head.values)
    return document
