"""Compiles the module of a code step to a script for the sandbox.

A small entry file (`STEP`) is added beside the module. It imports the author's function and calls
it with `(input, ctx)`. `FlowHardError` is another added file. Both are virtual: nothing is
written. Tests: tests/flows/project/test_module_reader.py.
"""

import json
import posixpath
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from penstock.core.diagnostics import Diagnostic
from penstock.flows.checks.context import SUFFIXES
from penstock.flows.steps.kind import LoadModule
from penstock.sandbox.compiler.load_script import ScriptReference, load
from penstock.sandbox.compiler.module_graph import RefusedImport, target
from penstock.sandbox.compiler.parsers import Statement
from penstock.sandbox.compiler.scanner import Scanner
from penstock.sandbox.compiler.script_files import Files, ReadFailure
from penstock.sandbox.script import LoadResult
from penstock.tools.scripts.load import open_scanner

EXPORTS = ("default", "run")
"""Names under which a module may export its function, best first."""
STEP, HARD_ERROR = ".penstock/step.mjs", ".penstock/hard_error.mjs"
"""Virtual files beside every module: the entry, and the class `FlowHardError`."""
OF_FLOWS = "/pi-flows"
"""Suffix of package imports that resolve to HARD_ERROR."""
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


def open_reader(cache: Path | None) -> LoadModule:
    """Return a reader of modules with a cache for compiled scripts."""
    return partial(read_module, scanner=open_scanner(cache))


def read_module(path: str, files: Files, *, scanner: Scanner) -> LoadResult:
    """Compile a module, or return its problems. `files` are the files beside it."""
    folder, name = posixpath.split(path)
    if not name.endswith(tuple(f".{each}" for each in SUFFIXES)):
        message = f'"{name}" must end in .mts, .ts, .mjs or .js'
        return _broken("import-extension", message, path)
    for export in EXPORTS:
        more = {STEP: _step(name, export), HARD_ERROR: _HARD_ERROR}
        reference = ScriptReference(
            files=_FilesWithExtras(files, more), folder=folder, entry=STEP, resolve=_resolve
        )
        loaded = load(reference, scanner)
        if not any(each.file == posixpath.join(folder, STEP) for each in loaded.problems):
            return loaded
    message = f'"{name}" must export a function, as default or as run'
    return _broken("entrypoint-missing", message, path)


class _FilesWithExtras:
    """Files of a folder, with additional virtual ones."""

    def __init__(self, files: Files, more: Mapping[str, str]) -> None:
        self._files = files
        self._more = more

    def read(self, name: str, most: int) -> bytes | ReadFailure:
        more = self._more.get(name)
        return self._files.read(name, most) if more is None else more.encode()

    def names(self) -> Iterable[str]:
        return self._files.names()


def _step(name: str, export: str) -> str:
    specifier = json.dumps(f"../{name}")
    return _STEP.replace("EXPORT", export).replace("SPECIFIER", specifier)


def _resolve(importer: str, statement: Statement, folder: str) -> str | RefusedImport:
    if statement.specifier.endswith(OF_FLOWS):
        return HARD_ERROR
    return target(importer, statement, folder)


def _broken(code: str, message: str, path: str) -> LoadResult:
    return LoadResult(problems=(Diagnostic(code=code, message=message, file=path),))
