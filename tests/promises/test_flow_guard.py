"""The guard of an agent whose file has `access`, and the result of each of its calls."""

from typing import Any, ClassVar

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.models.scripted import call
from tests.kit.architect import AtWork, at_work
from tests.kit.project import ProjectFolder

pytestmark = pytest.mark.programs
AGENT = """---
name: {name}
description: d
tools: {tools}
access:
  read: [src/**, docs/*.md]
  write: [{write}]
  bash:
    deny: ["rm -rf *", "curl", "git push*"]
---
Work.
"""
ALWAYS = "Always available: finish, ask_user, skill_read."
DECLARED = "read, write, grep, bash, t_reg"
READABLE = "access.read: src/**, docs/*.md."
WRITABLE = "access.write: src/gen/**."
FILES = ("src/a.py", "src/a/b.py", "docs/x.md", "docs/sub/x.md", "README.md", "tests/t.py", ".env")


class Registered:
    """A tool of a plugin."""

    id = "t_reg"
    description = "Does something."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    def run(self, input: Any, ctx: Any) -> Any:
        return {"ran": True}


async def done(
    project: ProjectFolder, tool: str, *, tools: str = DECLARED, shell: bool = True, **given: Any
) -> Envelope:
    """Return the result of one call of agent `g`, in the project of the page."""
    write = given.pop("access", "src/gen/**")
    project.write("agents/g.md", AGENT.format(name="g", tools=tools, write=f'"{write}"'))
    for name in FILES:
        project.write(name, f"{name}\n")
    (project.root / "src/l").symlink_to("../docs/sub/x.md")
    (project.root / "src/out").symlink_to("/etc/hosts")
    flows = f'[flows]\nshell = {str(shell).lower()}\nshell_sandbox = "off"\n'
    project.write("penstock.toml", flows)

    def plugin(api: PluginApi) -> None:
        api.register_tool(Registered())

    found: AtWork = await at_work(project, call(tool, **given), agent="g", plugins=[plugin])
    ((_, envelope),) = found.outcomes
    return envelope


def error_of(envelope: Envelope) -> ErrorDetail:
    """Return why a call was refused; the session went on, and finished."""
    assert envelope.error is not None, envelope
    assert envelope.error.continuable
    return envelope.error


@pytest.mark.parametrize("path", ["src/a/b.py", "docs/x.md", "src/../docs/x.md", "{root}/src/a.py"])
async def test_paths_that_match_the_patterns_are_read(project: ProjectFolder, path: str) -> None:
    """G1."""
    envelope = await done(project, "read", path=path.format(root=project.root))
    assert envelope.ok, envelope


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        ("read", {"path": "docs/sub/x.md"}, f'is not readable for agent "g". {READABLE}'),
        ("read", {"path": "README.md"}, f'is not readable for agent "g". {READABLE}'),
        ("read", {"path": "src/l"}, f'is not readable for agent "g". {READABLE}'),
        ("grep", {"pattern": "x", "path": "tests"}, f'is not readable for agent "g". {READABLE}'),
        ("read", {"path": "../x"}, "is outside the project."),
        ("read", {"path": "/etc/hosts"}, "is outside the project."),
        ("read", {"path": "src/out"}, "is outside the project."),
        (
            "write",
            {"path": "src/a.py", "content": "x"},
            f'is not writable for agent "g". {WRITABLE}',
        ),
        ("read", {"path": ".env"}, "is protected."),
        ("read", {"path": ".penstock/db"}, "is protected."),
    ],
    ids=["G2", "G2 top", "G2 link", "G6", "G3", "G3 whole", "G3 link", "G4", "G7", "G7 own"],
)
async def test_other_paths_are_refused_with_the_specified_message(
    project: ProjectFolder, tool: str, given: dict[str, Any], expected: str
) -> None:
    """§12.2, through a session whose file has `access`."""
    error = error_of(await done(project, tool, **given))
    assert (error.code, error.message) == ("NOT_PERMITTED", f'"{given["path"]}" {expected}')


@pytest.mark.slow("a search is a process of its own")
async def test_a_search_finds_only_readable_files(
    project: ProjectFolder,
) -> None:
    """G4, G6."""
    found = await done(project, "grep", pattern="py|md")
    assert {line.partition(":")[0] for line in found.output.splitlines()} == {
        "docs/x.md",
        "src/a.py",
        "src/a/b.py",
    }


async def test_it_writes_where_its_pattern_allows(project: ProjectFolder) -> None:
    """G4."""
    assert (await done(project, "write", path="src/gen/a.py", content="x")).ok
    assert (project.root / "src/gen/a.py").read_text() == "x"


@pytest.mark.parametrize(("access", "is_written"), [("src/**", False), ("agents/**", True)])
async def test_agent_files_are_written_only_with_an_explicit_pattern(
    project: ProjectFolder, access: str, is_written: bool
) -> None:
    """G8."""
    made = await done(project, "write", access=access, path="agents/x.md", content="x")
    assert made.ok is is_written
    assert (project.root / "agents/x.md").exists() is is_written
    if not is_written:
        assert error_of(made).message == '"agents/x.md" is protected.'


DENIED = 'command refused by bash.deny pattern "rm -rf *" (matched "{}").'


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("rm -rf build", DENIED.format("rm -rf build")),
        ("ls && rm -rf x", DENIED.format("rm -rf x")),
        ("A=1 rm   -rf x", DENIED.format("rm -rf x")),
        ("git push origin", 'pattern "git push*"'),
        ("echo curly", 'pattern "curl"'),
        ("echo x > src/a.py", f'"src/a.py" is not writable for agent "g". {WRITABLE}'),
    ],
    ids=["G9", "G9 part", "G9 blanks", "G10", "G11", "G12"],
)
async def test_a_command_that_a_pattern_denies_does_not_run(
    project: ProjectFolder, command: str, message: str
) -> None:
    """§12.3, through a session whose file has `access.bash.deny`."""
    error = error_of(await done(project, "bash", command=command))
    assert error.code == "NOT_PERMITTED"
    assert message in error.message


@pytest.mark.parametrize(
    "command", ["echo rm -rf x", "mkdir -p src/gen; echo x | tee src/gen/a"], ids=["G10", "G12"]
)
async def test_a_command_that_none_denies_runs(project: ProjectFolder, command: str) -> None:
    """G10, G12."""
    envelope = await done(project, "bash", command=command)
    assert envelope.ok, envelope
    assert envelope.output["exitCode"] == 0


@pytest.mark.parametrize(
    ("tool", "given", "more", "expected"),
    [
        (
            "edit",
            {"path": "src/gen/a.py", "oldText": "a", "newText": "b"},
            {},
            f'"edit" is not declared by agent "g". Declared: {DECLARED}. {ALWAYS}',
        ),
        (
            "bash",
            {"command": "ls"},
            {"shell": False},
            "bash is switched off in this project (set shell = true under [flows]).",
        ),
        (
            "t_reg",
            {},
            {"tools": "read"},
            f'"t_reg" is not declared by agent "g". Declared: read. {ALWAYS}',
        ),
        ("flow_write", {}, {"tools": "flow_write"}, '"flow_write" is not granted to agent "g".'),
    ],
    ids=["G5", "G13", "G14", "G18"],
)
async def test_an_undeclared_or_ungranted_tool_is_refused(
    project: ProjectFolder, tool: str, given: dict[str, Any], more: dict[str, Any], expected: str
) -> None:
    """T46: "agents only call tools they declared"."""
    error = error_of(await done(project, tool, **more, **given))
    assert (error.code, error.message) == ("NOT_PERMITTED", expected)


async def test_a_tool_of_a_plugin_that_is_declared_runs(project: ProjectFolder) -> None:
    """G14, T06."""
    assert (await done(project, "t_reg")).output == {"ran": True}
