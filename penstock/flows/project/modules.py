"""The modules of code steps: those that a project has, and those that a run keeps."""

import posixpath
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from penstock.core.late import late
from penstock.flows.checks.context import CheckContext, CodeFault
from penstock.flows.checks.modules import module_of
from penstock.flows.definition import Code, Flow
from penstock.flows.project.files import FlowFile, FlowRoot
from penstock.sandbox.reading.folder import Files, Folder, ReadFailure
from penstock.sandbox.script import LoadResult

ReadModule = Callable[[str, Files], LoadResult]
"""Returns the script of a module by its path, or all that is wrong; the files stand beside it."""


class RunFiles:
    """The files of one folder, as a run keeps them."""

    def __init__(self, texts: Mapping[str, str], folder: str) -> None:
        self._texts = texts
        self._folder = folder

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return what was there when the run began."""
        text = self._texts.get(posixpath.join(self._folder, name))
        return ReadFailure.MISSING if text is None else text.encode()[:most]

    def names(self) -> Iterable[str]:
        """Return the names in the folder, and below it."""
        start = f"{self._folder}/" if self._folder else ""
        return [each.removeprefix(start) for each in self._texts if each.startswith(start)]


class _Noted:
    """The files of a folder; what was read of them is noted."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.texts: dict[str, str] = {}

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        content = self._files.read(name, most)
        if isinstance(content, bytes):
            try:
                self.texts[name] = content.decode()
            except UnicodeDecodeError:
                return content
        return content

    def names(self) -> Iterable[str]:
        return self._files.names()


class ModuleLoader:
    """Has scripts made of modules, one at a time, from whichever thread."""

    def __init__(self, open_reader: Callable[[], ReadModule]) -> None:
        self._open_reader = open_reader
        """Called when the first module is wanted."""
        self._read: ReadModule | None = None
        self._lock = threading.Lock()

    def load(self, path: str, files: Files) -> LoadResult:
        """Return the script of a module, or all that is wrong; `files` are those beside it."""
        with self._lock:
            if self._read is None:
                self._read = self._open_reader()
            return self._read(path, files)

    def find_fault(self, path: str, root: Path) -> CodeFault | None:
        """Return what is wrong with a module of the project, if anything is."""
        return self._fault(path, Folder(root / posixpath.dirname(path)))

    def find_fault_in(self, path: str, texts: Mapping[str, str]) -> CodeFault | None:
        """Return what is wrong with a module that a run keeps, if anything is."""
        return self._fault(path, RunFiles(texts, posixpath.dirname(path)))

    def _fault(self, path: str, files: Files) -> CodeFault | None:
        loaded = self.load(path, files)
        if not loaded.problems:
            return None
        own = next((each for each in loaded.problems if each.file == path), None)
        if own is not None:
            return CodeFault(line=own.line, column=own.column, problem=own.message)
        other = loaded.problems[0]
        said = f"{other.file}:{other.line}:{other.column}: {other.message}"
        return CodeFault(line=1, column=1, problem=said)

    def texts(self, flow: Flow, file: FlowFile) -> dict[str, str]:
        """Return the texts of all modules that a flow's code steps are made of, by path.

        What is missing or broken is so in the run too.
        """
        around = FlowRoot(file.root).around(file, CheckContext())
        texts: dict[str, str] = {}
        for step in flow.steps:
            path = module_of(step, around) if isinstance(step, Code) else None
            if path is not None:
                folder = posixpath.dirname(path)
                noted = _Noted(Folder(file.root / folder))
                self.load(path, noted)
                texts |= {posixpath.join(folder, name): text for name, text in noted.texts.items()}
        return texts


def module_loader(cache: Path | None) -> ModuleLoader:
    """Return what makes scripts of modules, and keeps them in a cache.

    What reads scripts is loaded with the first of them.
    """

    def opened() -> ReadModule:
        make: Callable[[Path | None], ReadModule] = late("penstock.flows.code.reading:open_reader")
        return make(cache)

    return ModuleLoader(opened)
