"""The modules of code steps: how what an author wrote becomes a script of the sandbox (7.9)."""

import json
import posixpath
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.code import SUFFIXES, module_of
from penstock.flows.checks.context import CheckContext, CodeFault
from penstock.flows.definition import Code, Flow
from penstock.flows.files import FlowFile, FlowRoot
from penstock.sandbox.reading.folder import Absence, Files, Folder
from penstock.sandbox.reading.imports import RefusedImport, target
from penstock.sandbox.reading.lexer import Statement
from penstock.sandbox.reading.modules import Loaded, WantedScript, load
from penstock.sandbox.reading.scan import Scanner

EXPORTS = ("default", "run")
"""What a module may export its function as, the best first."""
STEP, HARD_ERROR = ".penstock/step.mjs", ".penstock/hard_error.mjs"
"""Two files that every module finds beside itself: what calls it, and `FlowHardError`."""
OF_FLOWS = "/pi-flows"
"""A package import that ends so means HARD_ERROR."""
_HARD_ERROR = """\
export class FlowHardError extends Error {
  name = "FlowHardError";
}
Object.defineProperty(globalThis, "FlowHardError", { value: FlowHardError });
"""
_STEP = """\
import "./hard_error.mjs";
import { EXPORT as begin } from SPECIFIER;

export default async ({ input, about, signalMs }) => {
  if (typeof begin !== "function") throw new TypeError("EXPORT must be a function");
  let summary, timer, controller;
  const context = {
    ...about,
    cwd: ".",
    logger: (message) => console.log(message),
    setSummary: (text) => { summary = `${text}`; },
    get signal() {
      if (controller === undefined) {
        controller = new AbortController();
        const late = () => controller.abort(new DOMException("the time is up", "TimeoutError"));
        timer = setTimeout(late, signalMs);
      }
      return controller.signal;
    },
  };
  try {
    return { value: await begin(input, context), summary };
  } finally {
    clearTimeout(timer);
  }
};
"""


class RunFiles:
    """The files of one folder, as a run keeps them."""

    def __init__(self, texts: Mapping[str, str], folder: str) -> None:
        self._texts = texts
        self._folder = folder

    def read(self, name: str, most: int) -> bytes | Absence:
        """Return what was there when the run began."""
        text = self._texts.get(posixpath.join(self._folder, name))
        return Absence.MISSING if text is None else text.encode()[:most]

    def names(self) -> Iterable[str]:
        """Return the names in the folder, and below it."""
        start = f"{self._folder}/" if self._folder else ""
        return [each.removeprefix(start) for each in self._texts if each.startswith(start)]


class _Beside:
    """The files of a folder, with some more."""

    def __init__(self, files: Files, more: Mapping[str, str]) -> None:
        self._files = files
        self._more = more

    def read(self, name: str, most: int) -> bytes | Absence:
        more = self._more.get(name)
        return self._files.read(name, most) if more is None else more.encode()

    def names(self) -> Iterable[str]:
        return self._files.names()


class _Noted:
    """The files of a folder; what was read of them is noted."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.texts: dict[str, str] = {}

    def read(self, name: str, most: int) -> bytes | Absence:
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
    """Makes scripts of modules, one at a time, from whichever thread."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._lock = threading.Lock()

    def load(self, path: str, files: Files) -> Loaded:
        """Return the script of a module, or all that is wrong; `files` are those beside it."""
        with self._lock:
            return _load(path, files, self._scanner)

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


def _load(path: str, files: Files, scanner: Scanner) -> Loaded:
    folder, name = posixpath.split(path)
    if not name.endswith(tuple(f".{each}" for each in SUFFIXES)):
        said = f'"{name}" must end in .mts, .ts, .mjs or .js'
        return _broken("import-extension", said, path)
    for export in EXPORTS:
        more = {STEP: _step(name, export), HARD_ERROR: _HARD_ERROR}
        wanted = WantedScript(
            files=_Beside(files, more), folder=folder, entry=STEP, resolve=_resolve
        )
        loaded = load(wanted, scanner)
        if not any(each.file == posixpath.join(folder, STEP) for each in loaded.problems):
            return loaded
    said = f'"{name}" must export a function, as default or as run'
    return _broken("entrypoint-missing", said, path)


def _step(name: str, export: str) -> str:
    specifier = json.dumps(f"../{name}")
    return _STEP.replace("EXPORT", export).replace("SPECIFIER", specifier)


def _resolve(importer: str, statement: Statement, folder: str) -> str | RefusedImport:
    if statement.specifier.endswith(OF_FLOWS):
        return HARD_ERROR
    return target(importer, statement, folder)


def _broken(code: str, message: str, path: str) -> Loaded:
    return Loaded(problems=(Diagnostic(code=code, message=message, file=path),))
