"""Shell steps of flows: real commands in a real folder."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.chat.requests import NewRun
from penstock.core.envelope import Envelope
from penstock.flows.definition import Flow
from penstock.flows.runs.values import LoopCounters, TemplateValues
from penstock.flows.steps.shell import with_variables
from tests.flows.checks.findings import PLAIN, found_in
from tests.kit.project import ProjectFolder

pytestmark = pytest.mark.programs
FLOW = "name: demo\ndescription: d\nsteps:\n"


async def run(folder: ProjectFolder, command: str, sandbox: str = "off", **more: Any) -> Envelope:
    """Run a flow of one shell step, in which another flow gives a value."""
    fields = "".join(f", {name}: {value}" for name, value in more.items())
    folder.write("flows/demo.yaml", f"{FLOW}  - {{id: sh, command: {command!r}{fields}}}\n")
    folder.write("penstock.toml", f'[flows]\nshell = true\nshell_sandbox = "{sandbox}"\n')
    async with folder.opened() as runtime:
        return await runtime.run_flow(NewRun(command="demo", task="a $(touch evil) 'b'"))


def names_in(folder: ProjectFolder) -> set[str]:
    return {each.name for each in folder.root.iterdir()}


def result(envelope: Envelope) -> dict[str, Any]:
    result: dict[str, Any] = envelope.output["results"]["sh"]
    return result


@pytest.mark.parametrize(
    ("command", "output", "summary"),
    [
        ("echo hi", "hi\n", "exit code 0"),
        ('printf "%s" "${{task}}"', "a $(touch evil) 'b'", "exit code 0"),
        ("printf '%s|' ${{task}}", "a|$(touch|evil)|'b'|", "exit code 0"),
        ("echo $PENSTOCK_STEP_ID", "sh\n", "exit code 0"),
    ],
)
async def test_values_never_become_shell_text(
    project: ProjectFolder, command: str, output: str, summary: str
) -> None:
    """Unquoted, the value is split into words by the shell; inside double quotes it is one word."""
    envelope = await run(project, command)
    assert envelope.ok, envelope
    outcome = result(envelope)
    assert (outcome["fullOutput"], outcome["summary"], outcome["exitCode"]) == (output, summary, 0)
    assert "evil" not in names_in(project)


@pytest.mark.parametrize(
    ("command", "more", "summary"),
    [
        ("echo no >&2; exit 3", {}, "exit code 3"),
        ("kill -9 $$", {}, "killed by signal 9"),
        ("sleep 9", {"timeout": 1}, "timed out after 1 s"),
    ],
)
@pytest.mark.slow("a command is waited for until its time is over")
async def test_a_failing_command_reports_its_exit_code_and_output(
    project: ProjectFolder, command: str, more: dict[str, Any], summary: str
) -> None:
    envelope = await run(project, command, **more)
    assert envelope.output["status"] == "error"
    assert result(envelope)["summary"] == summary


async def test_shell_steps_are_off_unless_the_project_enables_them(project: ProjectFolder) -> None:
    project.write("flows/demo.yaml", f"{FLOW}  - {{id: sh, command: echo hi}}\n")
    async with project.opened() as runtime:
        envelope = await runtime.run_flow(NewRun(command="demo"))
    assert "switched off in this project" in envelope.output["reason"]


def test_each_template_becomes_a_variable() -> None:
    """Each `${{…}}` in `command` is replaced by `${PS_1}`, `${PS_2}` …."""
    flow = Flow(name="f", description="d", steps=())
    values = TemplateValues(
        flow=flow, task="t", results={}, loops=LoopCounters(flow), config={"n": [1, 2]}
    )
    text, variables = with_variables("a ${{task}} '${{config.n}}' $${{x}} ${{secrets.y}}", values)
    assert text == "a ${PS_1} '${PS_2}' ${{x}} ${{secrets.y}}"
    assert variables == {"PS_1": "t", "PS_2": "[1,2]"}


@pytest.mark.parametrize(
    ("command", "task", "message"),
    [
        ('echo "${{task}}"', "a\0b", "the value of ${PS_1} has a character that is not allowed"),
        (
            'echo "${{task}}"',
            "a\ud800b",
            "the value of ${PS_1} has a character that is not allowed",
        ),
        ('echo "${{task}}"', "x" * 100_001, "the value of ${PS_1} has more than 100,000 bytes"),
        ('echo "${{task}}"', "ä" * 50_001, "the value of ${PS_1} has more than 100,000 bytes"),
        (
            "echo " + "${{task}}" * 11,
            "x" * 99_999,
            "the values of the command have more than 1,000,000 bytes in all",
        ),
        ("echo " + "x" * 100_000, "t", "the command has more than 100,000 bytes"),
    ],
    ids=["NUL", "half a character", "large", "large in bytes", "large in all", "long command"],
)
async def test_a_value_that_no_command_can_have_is_a_soft_failure(
    project: ProjectFolder, command: str, task: str, message: str
) -> None:
    """A value over 100,000 bytes: soft `shell_value`."""
    more = "  - {id: caught, command: 'echo caught'}\n"
    project.write(
        "flows/demo.yaml", f"{FLOW}  - {{id: sh, command: {command!r}, on_error: caught}}\n{more}"
    )
    project.write("penstock.toml", '[flows]\nshell = true\nshell_sandbox = "off"\n')
    async with project.opened() as runtime:
        envelope = await runtime.run_flow(NewRun(command="demo", task=task))
    assert envelope.output["status"] == "success"
    assert result(envelope)["summary"].startswith(message)


async def test_a_command_whose_changes_are_refused_fails(project: ProjectFolder) -> None:
    """The next step is not to believe in a file that is not there."""
    command = "echo x > made.txt; echo x > new.tool.yaml; echo done"
    envelope = await run(project, command, "auto")
    assert envelope.output["status"] == "error"
    outcome = result(envelope)
    assert outcome["summary"] == 'changes were refused: "new.tool.yaml" is protected.'
    assert (outcome["fullOutput"], outcome["exitCode"]) == ("done\n", 0)
    assert "made.txt" in names_in(project)
    assert "new.tool.yaml" not in names_in(project)


async def test_a_command_that_the_system_does_not_start_is_a_soft_failure(
    monkeypatch: pytest.MonkeyPatch, project: ProjectFolder
) -> None:
    async def refuse(*args: Any, **more: Any) -> None:
        raise OSError(7, "Argument list too long")

    monkeypatch.setattr("asyncio.create_subprocess_exec", refuse)
    envelope = await run(project, "echo hi", retry="{attempts: 1, delay: 0}")
    assert (
        "the command did not start: [Errno 7] Argument list too long" in (envelope.output["reason"])
    )
    assert result(envelope)["visits"] == 2


SHELLS = (
    "- {id: s, command: make}\n- {id: t, command: make, on_error: z}\n- {id: z, agent: scout}\n"
)
ALONE = (
    '4 warning shell-without-on-error: shell step "s" has no on_error: a failing command '
    "ends the flow"
)
OFF = (
    "4 warning shell-off: shell steps are switched off in this project; set shell = true "
    "under [flows] in penstock.toml"
)


@pytest.mark.parametrize(("has_shell", "expected"), [(True, [ALONE]), (False, [OFF, ALONE])])
def test_a_shell_step_is_switched_on_and_may_fail(has_shell: bool, expected: list[str]) -> None:
    assert found_in(SHELLS, replace(PLAIN, has_shell=has_shell)) == expected
