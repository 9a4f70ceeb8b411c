"""The TypeScript modules of code steps: on disk, and as stored with a run."""

import posixpath
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from penstock.core.late import late
from penstock.flows.checks.context import CheckContext, CodeFault, module_of
from penstock.flows.definition import Flow
from penstock.flows.project.files import FlowFile, FlowRoot
from penstock.flows.steps.kind import LoadModule
from penstock.sandbox.compiler.script_files import Files, Folder, ReadFailure
from penstock.sandbox.script import LoadResult


class RunFiles:
    """The files of one folder, as stored with a run."""

    def __init__(self, texts: Mapping[str, str], folder: str) -> None:
        self._texts = texts
        self._folder = folder

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        """Return the content at the start of the run."""
        text = self._texts.get(posixpath.join(self._folder, name))
        return ReadFailure.MISSING if text is None else text.encode()[:most]

    def names(self) -> Iterable[str]:
        """Return the names in the folder and below it."""
        start = f"{self._folder}/" if self._folder else ""
        return [each.removeprefix(start) for each in self._texts if each.startswith(start)]


class _RecordingFiles:
    """Files of a folder that record what was read of them: exactly that is stored with the run."""

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
    """Compiles modules to scripts, one at a time, from any thread.

    The lock also covers the first use: opening the reader loads the parser, which must happen once.
    """

    def __init__(self, open_reader: Callable[[], LoadModule]) -> None:
        self._open_reader = open_reader
        """Called when the first module is loaded."""
        self._read: LoadModule | None = None
        self._lock = threading.Lock()

    def load(self, path: str, files: Files) -> LoadResult:
        """Compile a module. `files` are the files beside it."""
        with self._lock:
            if self._read is None:
                self._read = self._open_reader()
            return self._read(path, files)

    def find_fault(self, path: str, root: Path) -> CodeFault | None:
        """Return the first problem of a module of the project, or None."""
        return self._fault(path, Folder(root / posixpath.dirname(path)))

    def find_fault_in(self, path: str, texts: Mapping[str, str]) -> CodeFault | None:
        """Return the first problem of a module stored with a run, or None."""
        return self._fault(path, RunFiles(texts, posixpath.dirname(path)))

    def _fault(self, path: str, files: Files) -> CodeFault | None:
        loaded = self.load(path, files)
        if not loaded.problems:
            return None
        own = next((problem for problem in loaded.problems if problem.file == path), None)
        if own is not None:
            return CodeFault(line=own.line, column=own.column, problem=own.message)
        other = loaded.problems[0]
        text = f"{other.file}:{other.line}:{other.column}: {other.message}"
        return CodeFault(line=1, column=1, problem=text)

    def texts(self, flow: Flow, file: FlowFile) -> dict[str, str]:
        """Return the texts of all modules that a flow's code steps need, by path.

        A missing or broken module is stored as it is; the run then fails at that step.
        """
        check_context = FlowRoot(file.root).check_context(file, CheckContext())
        texts: dict[str, str] = {}
        for step in flow.steps:
            path = module_of(step, check_context) if step.runs_module else None
            if path is not None:
                folder = posixpath.dirname(path)
                recording = _RecordingFiles(Folder(file.root / folder))
                self.load(path, recording)
                texts |= {
                    posixpath.join(folder, name): text for name, text in recording.texts.items()
                }
        return texts


def module_loader(cache: Path | None) -> ModuleLoader:
    """Return a loader that caches its scripts in a folder. It loads the parser on first use."""

    def opened() -> LoadModule:
        make: Callable[[Path | None], LoadModule] = late(
            "penstock.flows.project.module_reader:open_reader"
        )
        return make(cache)

    return ModuleLoader(opened)
