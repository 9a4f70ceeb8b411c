"""Change the code in one place at a time, and list the changes that no test of its package notices.

Each change (a mutant) is made in a copy of the tree: a comparison, `and` for `or`, a condition
negated, a number, a statement dropped. The test file of the changed file runs first, then the
tests of its package and the contracts. The order of the mutants follows from the seed alone. A file
keeps the results, so a run that was stopped continues. A survivor shows a missing test or a change
that makes no difference.

    python -m scripts.mutants --count 300 -- -m "not programs"
    python -m scripts.mutants --again      # the survivors once more, on the tree as it is now
"""

import argparse
import ast
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "store", "server", "sandbox", "agents", "tools")
COPIED = ("penstock", "tests", "examples", "docs", "scripts", "pyproject.toml", "README.md")
SILENT = ("log.", "logging.")
"""What calls begin with that only operators read."""
SECONDS = 300
Node = ast.expr | ast.stmt
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change in one file."""

    path: str
    place: str
    """The function, the kind of change, what is changed, and how many equal ones come before."""
    line: int
    start: int
    end: int
    text: str
    """The replacement of the text from `start` to `end`, in bytes of the file, instead."""

    @property
    def name(self) -> str:
        """What it is called in every version of its file."""
        return f"{self.path}::{self.place}"

    def rank(self, seed: str) -> str:
        """Where the mutant comes in the order of a seed, whatever else there is."""
        return hashlib.sha256(f"{seed}:{self.name}".encode()).hexdigest()


class Finder(ast.NodeVisitor):
    """Finds every change that can be made in a file."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._lines = [0]
        for line in source.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._scope: list[str] = []
        self._seen: dict[str, int] = {}
        self.found: list[Mutant] = []

    def visit(self, node: ast.AST) -> None:
        """Look at a node and at all below it, except annotations, docstrings and what is raised."""
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            self._scope.append(node.name)
            for each in [*node.body, *getattr(getattr(node, "args", None), "defaults", [])]:
                self.visit(each)
            self._scope.pop()
        elif isinstance(node, ast.AnnAssign):
            self.visit(node.value or ast.Pass())
        elif not isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import):
            self._look(node)
            self.generic_visit(node)

    def _look(self, node: ast.AST) -> None:
        match node:
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in COMPARISONS:
                self._infix("compare", left, right, COMPARISONS[type(op)])
            case ast.BoolOp(op=op, values=[left, right, *_]):
                self._infix("and-or", left, right, "and" if type(op) is ast.Or else "or")
            case ast.BinOp(op=op, left=left, right=right) if type(op) in ARITHMETIC:
                self._infix("arithmetic", left, right, ARITHMETIC[type(op)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._add("not", node, node, ast.unparse(operand))
            case ast.Constant(value=bool(value)):
                self._add("constant", node, node, str(not value))
            case ast.Constant(value=int(value)):
                self._add("constant", node, node, str(value + 1))
            case _:
                self._look_at_flow(node)

    def _look_at_flow(self, node: ast.AST) -> None:
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                self._add("negate", test, test, f"(not ({ast.unparse(test)}))")
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                self._add("return", value, value, "None")
            case ast.Break():
                self._add("break", node, node, "continue")
            case ast.Continue():
                self._add("continue", node, node, "break")
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
                if not ast.unparse(node).startswith(SILENT):
                    self._add("statement", node, node, "pass")
            case _:
                pass

    def _infix(self, kind: str, left: ast.expr, right: ast.expr, operator: str) -> None:
        """Put another operator between two operands; what follows them stays as it is."""
        text = f"(({ast.unparse(left)}) {operator} ({ast.unparse(right)}))"
        self._add(kind, left, right, text)

    def _add(self, kind: str, first: Node, last: Node, text: str) -> None:
        """Note what replaces all from the beginning of one node to the end of another."""
        place = f"{'.'.join(self._scope)}:{kind}:{ast.unparse(first)[:60]}=>{text[:60]}"
        number = self._seen[place] = self._seen.get(place, 0) + 1
        self.found.append(
            Mutant(
                path=self._path,
                place=f"{place}#{number}",
                line=first.lineno,
                start=self._lines[first.lineno - 1] + first.col_offset,
                end=self._lines[(last.end_lineno or 1) - 1] + (last.end_col_offset or 0),
                text=text,
            )
        )


def mutants(root: Path) -> Iterator[Mutant]:
    """Every mutant of these packages that still compiles."""
    for package in PACKAGES:
        for path in sorted((root / "penstock" / package).rglob("*.py")):
            source = path.read_text()
            finder = Finder(str(path.relative_to(root)), source)
            if "migrations" not in path.parts:
                finder.visit(ast.parse(source))
            yield from (each for each in finder.found if _compiles(source, each))


def _compiles(source: str, mutant: Mutant) -> bool:
    """Whether it does: operands that stood in brackets of their own are cut apart."""
    try:
        ast.parse(changed(source, mutant))
    except SyntaxError:
        return False
    return True


def changed(source: str, mutant: Mutant) -> str:
    """Return the source with the change."""
    text = source.encode()
    return (text[: mutant.start] + mutant.text.encode() + text[mutant.end :]).decode()


def own_tests(root: Path, path: str) -> list[str]:
    """Return the tests that bear the name of a file."""
    parts = Path(path).parts[1:]
    twin = f"test_{parts[-1]}"
    homes = [Path("tests", *parts[:-1], twin), Path("tests/contracts", twin)]
    return [str(home) for home in homes if (root / home).exists()]


def noticed_by(root: Path, mutant: Mutant, options: list[str]) -> str:
    """Return which test notices a mutant: "" for none. The options are for its package."""
    path = root / mutant.path
    source = path.read_text()
    path.write_text(changed(source, mutant))
    try:
        own = own_tests(root, mutant.path)
        package = [f"tests/{Path(mutant.path).parts[1]}", "tests/contracts", *options]
        return (own and run(root, own)) or run(root, package)
    finally:
        path.write_text(source)


def run(root: Path, arguments: list[str]) -> str:
    """Run tests, and return the first that fails; they end with all the processes they start."""
    pytest = ["-m", "pytest", "-qx", "--tb=no", "-knot postgres", *arguments]
    process = subprocess.Popen(
        ["/usr/bin/env", f"PYTHONPATH={root}", sys.executable, *pytest, "--test-seconds=10"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=SECONDS)
        return "" if process.returncode == 0 else failed(said)
    except subprocess.TimeoutExpired:
        return "a hang"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def failed(said: str) -> str:
    """Return the test that pytest named, or its last words."""
    lines = said.splitlines() or ["nothing said"]
    return next((each for each in lines if each.startswith(("FAILED", "ERROR"))), lines[-1])[:200]


def main() -> None:
    """Run mutants, and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--results", type=Path, default=ROOT / ".mutants" / "results.jsonl")
    parser.add_argument("--again", action="store_true", help="run what survived once more")
    parser.add_argument("options", nargs="*", help="of pytest for a whole package, behind --")
    given = parser.parse_args()
    known = read(given.results)
    with tempfile.TemporaryDirectory() as folder:
        root = copy(Path(folder))
        found = sorted(mutants(root), key=lambda each: each.rank(given.seed))[: given.count]
        wanted = [each for each in found if is_wanted(known.get(each.name), again=given.again)]
        print(f"{len(found)} mutants, of which {len(wanted)} are to run", flush=True)
        for package in PACKAGES:
            if by := run(root, [f"tests/{package}", "tests/contracts", *given.options]):
                sys.exit(f"without any change {by}")
        for mutant in wanted:
            known[mutant.name] = by = noticed_by(root, mutant, given.options)
            with given.results.open("a") as file:
                file.write(json.dumps({"name": mutant.name, "by": by, **asdict(mutant)}) + "\n")
            print(f"{mutant.path}:{mutant.line}  {mutant.place}  {by or 'SURVIVED'}", flush=True)
    survivors = [each for each in found if known.get(each.name) == ""]
    for mutant in survivors:
        print(f"{mutant.path}:{mutant.line}  {mutant.place}")
    print(f"{len(survivors)} of {len(found)} survived")


def is_wanted(before: str | None, *, again: bool) -> bool:
    """Whether a mutant is to run: it has not, or it survived and is to be tried again."""
    return not before if again else before is None


def read(results: Path) -> dict[str, str]:
    """Return which test noticed each mutant that has run, by the newest run."""
    results.parent.mkdir(exist_ok=True)
    lines = results.read_text().splitlines() if results.exists() else []
    return {row["name"]: row["by"] for row in map(json.loads, lines)}


def copy(folder: Path) -> Path:
    """Copy the tree, so that it can be changed while it is worked on."""
    for name in COPIED:
        place = ROOT / name
        if place.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", ".penstock")
            shutil.copytree(place, folder / name, ignore=ignore)
        else:
            shutil.copy2(place, folder / name)
    return folder


if __name__ == "__main__":
    main()
