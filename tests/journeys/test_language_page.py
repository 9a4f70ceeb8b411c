"""Every table of the page about the language of scripts, tried out."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.app.project import load_project
from penstock.app.settings import load
from tests.kit.project import ProjectFolder

PAGE = (Path(penstock.__file__).parents[1] / "docs" / "scripts" / "language.md").read_text()
pytestmark = [
    pytest.mark.conformance,
    pytest.mark.slow("reads a script for each row"),
]


def section(title: str) -> str:
    """Return the section under a title of the page."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[tuple[str, str]]:
    """Return the two cells of each row."""
    return re.findall(r"^\| `(.*)` \| (.*) \|$", section(title), re.MULTILINE)


def names(title: str) -> list[str]:
    """Return the names in the list of a section."""
    items = re.findall(r"^- .*$", section(title), re.MULTILINE)
    return [name for item in items for name in re.findall(r"`([\w.]+)`", item)]


@pytest.fixture
def codes(project: ProjectFolder) -> Callable[[str], list[str]]:
    """Return the codes of the errors in a line of a script."""
    project.write("tools/lib/x.mts", "export default 1;\n")
    project.write("tools/lib/data.json", "{}\n")
    project.write("x.mts", "export default 1;\n")

    def codes(line: str) -> list[str]:
        project.tool("tried", f"{line}\nexport const run = () => 1;\n")
        loaded = load_project(load(project.root, cache_dir=str(project.cache)))
        return [each.code for each in loaded.diagnostics]

    return codes


@pytest.mark.parametrize(("refused", "instead"), rows("TypeScript that is refused"))
def test_refused_typescript_has_an_accepted_form(
    codes: Callable[[str], list[str]], refused: str, instead: str
) -> None:
    assert codes(refused) == ["ts-not-erasable"]
    assert codes(instead.strip("`")) == []


@pytest.mark.parametrize(("line", "verdict"), rows("Imports"))
def test_imports_are_allowed_or_refused_as_documented(
    codes: Callable[[str], list[str]], line: str, verdict: str
) -> None:
    refusals = re.findall(r"^`(import-[\w-]+)`", verdict)
    assert codes(line) == refusals
    assert refusals or verdict.startswith("allowed")


async def test_each_global_is_present_or_absent_as_documented(
    project: ProjectFolder,
) -> None:
    script = """
        export function run({ names }: { names: string[] }) {
          const find = (name: string) =>
            name.split(".").reduce((at: any, part) => at?.[part], globalThis);
          return names.filter((name) => find(name) === undefined);
        }
    """
    project.tool("finds", script)
    result, absent = names("Available globals"), names("Missing globals")
    assert {"fetch", "crypto.subtle.digest"} <= set(result)
    async with project.opened() as runtime:
        envelope = await runtime.call("finds", {"names": result + absent})
    assert json.loads(json.dumps(envelope.output)) == absent
