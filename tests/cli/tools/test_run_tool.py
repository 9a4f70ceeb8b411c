"""`penstock run-tool`, on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.flow_server import laid
from tests.kit.flows import HEAD
from tests.kit.project import ProjectFolder
from tests.kit.terminal import Terminal
from tests.kit.visibility import write_skill

pytestmark = [pytest.mark.programs, pytest.mark.slow("opens a store for each command")]
Run = Callable[..., tuple[int, str, str]]
TALKS = """
    export async function run({ name = "you" }) {
      console.log("hello", name);
      await flo.task.emitEvent({ event_type: "greeted", title: "Done" });
      return { greeting: `hello ${name}` };
    }
"""
THROWS = """
    function look(): never {
      throw new Error("no such thing");
    }
    export const run = () => look();
"""
ASKS = """
    export async function run() {
      const sent = await flo.callTool({ tool_id: "send", input: {} });
      const said = await flo.task.waitForUserMessage({ user_message: "Which month?" });
      return [sent.status, said];
    }
"""


@pytest.fixture
def scripts(project: Path, machine_code: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """The project, to put tools into."""
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(machine_code))
    return ProjectFolder(project, machine_code)


def test_stdout_has_the_envelope_and_stderr_the_events(scripts: ProjectFolder, run: Run) -> None:
    """Runs one tool for real (§22); stdout is the envelope."""
    scripts.tool("talks", TALKS, direct_call="false")
    code, out, err = run("run-tool", "talks", "--input", '{"name": "Ann"}')
    assert code == 0
    assert json.loads(out) == {"status": "success", "output": {"greeting": "hello Ann"}}
    assert err == "info: hello Ann\n[info] greeted · Done\n"
    assert run("run-tool", "talks", "--json")[1].count("\n") == 1
    assert not (scripts.root / ".penstock").exists()


def test_an_error_of_a_script_is_shown_with_its_lines(scripts: ProjectFolder, run: Run) -> None:
    scripts.tool("throws", THROWS)
    code, out, err = run("run-tool", "throws")
    assert (code, json.loads(out)["error"]["code"]) == (1, "SCRIPT_ERROR")
    assert err == (
        "tools/throws.mts:2:9\n"
        "  1 | function look(): never {\n"
        '> 2 |   throw new Error("no such thing");\n'
        "    |         ^\n"
        "  3 | }\n"
        "  4 | export const run = () => look();\n"
    )


def test_a_broken_tool_is_shown_with_its_lines(scripts: ProjectFolder, run: Run) -> None:
    scripts.tool("wrong", "import x from 'lodash';\nexport const run = () => x;")
    code, out, err = run("run-tool", "wrong")
    assert (code, json.loads(out)["error"]["code"]) == (1, "SCRIPT_LOAD_ERROR")
    assert "\n> 1 | import x from 'lodash';\n    |               ^\n" in err


@pytest.mark.parametrize(
    ("answers", "code", "output"),
    [
        ([], 4, None),
        (["approve"], 4, None),
        (["approve", "May"], 0, ["success", "May"]),
        (["reject", "June"], 0, ["failed", "June"]),
    ],
)
def test_answers_are_given_in_order(
    scripts: ProjectFolder, run: Run, answers: list[str], code: int, output: Any
) -> None:
    """`--answer` texts answer waits and questions in order; otherwise it ends with exit 4."""
    scripts.tool("asks", ASKS, script_tools="[send]")
    scripts.tool("send", "export const run = () => 1;", requires_approval="true")
    values = [part for each in answers for part in ("--answer", each)]
    ended, out, _ = run("run-tool", "asks", *values)
    envelope = json.loads(out)
    assert ended == code
    if output is None:
        assert envelope["status"] == "suspended"
    else:
        assert [envelope["output"][0], envelope["output"][1]["user_message"]] == output


TWICE = (
    HEAD
    + """steps:
  - {id: pick, question: "Which?", branches: {Go: again, Stop: again}}
  - {id: again, question: "Really?", branches: {Go: tell, Stop: tell}}
  - {id: tell, agent: scout, task: "tell"}
"""
)
RUNS = """
    export const run = async () =>
      (await flo.callTool({ tool_id: "execute_workflow", input: { workflowId: "twice" } })).status;
"""


@pytest.mark.parametrize(("answers", "code"), [(["Go"], 4), (["Go", "Stop"], 0)])
def test_a_run_that_the_tool_waits_for_can_ask_repeatedly(
    scripts: ProjectFolder, run: Run, answers: list[str], code: int
) -> None:
    """The second question is in the log of the run, not in the log of the call."""
    laid(scripts.root, {"twice.yaml": TWICE})
    toml = scripts.root / "penstock.toml"
    toml.write_text(f"{toml.read_text()}\n[limits]\nsweep_seconds = 0.1\n")
    scripts.tool("runs", RUNS, script_tools="[execute_workflow]")
    values = [part for each in answers for part in ("--answer", each)]
    ended, out, _ = run("run-tool", "runs", *values)
    assert ended == code
    assert json.loads(out)["status"] == ("success" if code == 0 else "suspended")


@pytest.mark.parametrize(
    ("options", "direct", "later"),
    [
        ([], "false", "This call cannot be answered later, because `penstock answer` resumes"),
        (["--store"], "false", "This call cannot be answered later, because `penstock answer`"),
        ([], "true", "With --store the question is stored, so that `penstock answer`"),
    ],
)
def test_an_unanswered_question_shows_how_to_answer_it(
    scripts: ProjectFolder, run: Run, options: list[str], direct: str, later: str
) -> None:
    scripts.tool("asks", ASKS, script_tools="[send]", direct_call=direct)
    scripts.tool("send", "export const run = () => 1;", requires_approval="true")
    code, _, err = run("run-tool", "asks", *options)
    *_, text, what, last = err.splitlines()
    assert (code, text) == (4, '? Run "send"? Does what it is for.')
    assert what == "  send {}"
    again = "No answer was given. Run it again with --answer approve or --answer reject, or at a "
    assert last.startswith(f"{again}terminal to be prompted. {later}")
    assert err.count("Does what it is for.") == 1


def test_a_question_that_an_option_answers_is_shown_once(scripts: ProjectFolder, run: Run) -> None:
    scripts.tool("asks", ASKS, script_tools="[send]", direct_call="false")
    scripts.tool("send", "export const run = () => 1;", requires_approval="true")
    _, _, err = run("run-tool", "asks", "--answer", "approve")
    assert err.count("Does what it is for.") == 1


def test_a_trial_in_the_projects_store_continues_there(scripts: ProjectFolder, run: Run) -> None:
    scripts.tool("asks", ASKS, script_tools="[send]")
    scripts.tool("send", "export const run = () => 1;", requires_approval="true")
    _, out, err = run("run-tool", "asks", "--store")
    assert "answer it: penstock answer q_" in err
    (question,) = json.loads(out)["error"]["details"]["question_ids"]
    code, _, err = run("answer", question, "approve")
    assert (code, err.splitlines()[0]) == (4, "? Which month?")


def test_the_state_is_written_back_on_request(scripts: ProjectFolder, run: Run) -> None:
    """Written back only with `--write-state`."""
    script = """
        export async function run() {
          const at = { scope_kind: "session" as const, key: "n" };
          const before = (await flo.state.get<number>(at))?.value ?? 0;
          await flo.state.put({ ...at, value: before + 1 });
          return before;
        }
    """
    scripts.tool("count", script, state="[{name: n, key_prefix: n, scope_kind: session}]")
    mocks = scripts.root / "mocks.json"
    entry = {"value": 7, "revision": "r1"}
    mocks.write_text(json.dumps({"state_bindings": [], "state": {"session": {"s": {"n": entry}}}}))
    _, out, err = run("run-tool", "count", "--mocks", str(mocks))
    assert json.loads(out)["output"] == 7
    assert err.startswith('The mocks\' "state_bindings" are ignored')
    assert json.loads(mocks.read_text())["state"]["session"]["s"]["n"] == entry
    run("run-tool", "count", "--mocks", str(mocks), "--write-state")
    written = json.loads(mocks.read_text())
    assert written["state"]["session"]["s"]["n"]["value"] == 8
    assert written["state_bindings"] == []


@pytest.mark.parametrize(
    ("mocks", "options", "message"),
    [
        ({"tool": {}}, [], "Did you mean 'tools'?"),
        ({"state": {"task": {}}}, ["--store"], "--store uses the state of the project"),
        ({}, ["--store", "--write-state"], "--write-state needs --mocks"),
        ({}, ["--skill", "read_dri"], "--skill: no skill 'read_dri'. Did you mean 'read_dir'?"),
        ({"runtime_config": {"a": 1}}, [], '/runtime_config/a: 1 is not of type "string"'),
        ({}, ["--input", "[]"], "--input must be a JSON object, found array"),
    ],
)
def test_contradicting_options_are_wrong_usage(
    scripts: ProjectFolder, run: Run, mocks: Any, options: list[str], message: str
) -> None:
    scripts.tool("talks", TALKS)
    file = scripts.root / "mocks.json"
    file.write_text(json.dumps(mocks))
    code, out, err = run("run-tool", "talks", "--mocks", str(file), *options)
    assert (code, out) == (2, "")
    words = " ".join(err.replace("│", " ").split())
    assert message in words


def test_an_unknown_tool_is_refused_with_the_nearest(scripts: ProjectFolder, run: Run) -> None:
    code, out, _ = run("run-tool", "helo")
    assert (code, json.loads(out)["error"]["code"]) == (1, "TOOL_NOT_FOUND")
    assert json.loads(out)["error"]["message"] == "There is no tool 'helo'. Did you mean 'hello'?"


def test_an_invalid_input_exits_with_3(scripts: ProjectFolder, run: Run) -> None:
    assert run("run-tool", "hello", "--input", '{"name": 5}')[0] == 3


def test_the_profile_holds_the_named_permissions(scripts: ProjectFolder, run: Run) -> None:
    """The profile is `local` with `--permission`s (default: all)."""
    scripts.tool("mail", "export const run = () => 1;", requires_permissions="[p.send]")
    assert run("run-tool", "mail")[0] == 0
    assert run("run-tool", "mail", "--permission", "p.send")[0] == 0
    code, out, _ = run("run-tool", "mail", "--permission", "p.read")
    assert (code, json.loads(out)["error"]["code"]) == (1, "NOT_PERMITTED")


def test_skills_are_selected(scripts: ProjectFolder, run: Run) -> None:
    """`--skill` selects skills."""
    call = '{ tool_id: "read_dir", input: { path: "task://" } }'
    scripts.tool("looks", f"export const run = () => flo.callTool({call});")
    assert json.loads(run("run-tool", "looks")[1])["output"]["error"]["code"] == "NOT_PERMITTED"
    _, out, err = run("run-tool", "looks", "--skill", "read_dir")
    assert json.loads(out)["output"]["status"] == "success"
    assert err == "→ read_dir: success\n"


def test_a_skill_that_cannot_be_selected_is_reported(scripts: ProjectFolder, run: Run) -> None:
    """`--skill` selects skills; §4: labels and permissions may close one."""
    more = {"requires_labels": "[gpu]", "requires_permissions": "[p.x]"}
    write_skill(scripts, "lab", **more)
    code, out, err = run("run-tool", "hello", "--skill", "lab", "--permission", "p.y")
    words = " ".join(err.replace("│", " ").split())
    assert (code, out) == (2, "")
    assert "the skill 'lab' exists but cannot be selected: " in words
    assert "the agent 'assistant' lacks the label 'gpu', the profile lacks" in words
    write_skill(scripts, "lab", requires_permissions="[p.x]")
    assert run("run-tool", "hello", "--skill", "lab", "--permission", "p.x")[0] == 3


WHERE = "export const run = () => new Error().stack.startsWith('Error');"
WISH = "{type: script, script_file: where.mts, engine: deno}"


def test_a_requested_engine_overrides_the_manifest(scripts: ProjectFolder, run: Run) -> None:
    """`run-tool --engine wasm|deno`: overrides for that command."""
    scripts.tool("where", WHERE, execution=WISH)
    values = [
        json.loads(run("run-tool", "where", *options)[1])["output"]
        for options in ((), ("--engine", "wasm"))
    ]
    assert values == [True, False]


@pytest.mark.parametrize(
    ("engine", "code", "message"),
    [
        ("deno", 1, "engine 'deno' is not one of allow, ['wasm']"),
        ("v8", 2, "'v8' is not one of 'wasm', 'deno'"),
    ],
)
def test_an_engine_that_the_project_does_not_allow_runs_nothing(
    scripts: ProjectFolder, run: Run, engine: str, code: int, message: str
) -> None:
    scripts.tool("where", WHERE)
    scripts.write("penstock.toml", '[sandbox]\nallow = ["wasm"]\n')
    ended, out, err = run("run-tool", "where", "--engine", engine)
    assert (ended, out) == (code, "")
    assert message in " ".join(err.replace("│", " ").split())


BURST = """
    export async function run() {
      for (let n = 0; n < 1005; n++) {
        await flo.task.emitEvent({ event_type: `e${n}` }).catch(() => null);
      }
      for (let n = 0; n < 2005; n++) console.log(`line ${n}`);
      flo.callTool({ tool_id: "later", input: {} });
      Promise.reject(new Error("nobody looks"));
      return "done";
    }
"""

DROPPED = "[warning] script.events · more than 1000 events; the others are dropped"


def test_a_burst_of_events_is_shown_completely(scripts: ProjectFolder, run: Run) -> None:
    """Events that arrive faster than the reader takes them are read from the log, not lost."""
    scripts.tool("later", "export const run = () => flo.sleep(1);")
    scripts.tool("burst", BURST, script_tools="[later]")
    code, out, err = run("run-tool", "burst")
    assert (code, json.loads(out)["output"]) == (0, "done")
    events = [f"[info] e{number}" for number in range(1000)]
    lines = [f"info: line {number}" for number in range(2000)]
    *shown, first, second, third, fourth = err.splitlines()
    assert shown == [*events, DROPPED, *lines]
    assert first == "warning: console output truncated"
    assert second.startswith("[warning] script.unhandled_rejection")
    assert third.startswith("[warning] script.unawaited_calls")
    assert fourth == "→ later: success"


PICK = '''
from penstock import ToolContext, tool

@tool(effect="none", direct_call=True)
async def pick(ctx: ToolContext) -> str:
    """Ask for a colour."""
    return str(await ctx.ask("Which colour?", options=["red", "green"]))
'''


@pytest.mark.slow("starts the command in a terminal")
@pytest.mark.parametrize("command", [("run-tool", "pick", "--store"), ("call", "pick")])
def test_an_invalid_option_is_asked_again_and_tab_completes_options(
    project: Path, command: tuple[str, ...]
) -> None:
    """`re` was taken as the answer to a question with the options red and green."""
    (project / "tools" / "pick.py").write_text(PICK)
    with Terminal(*command, cwd=project, echoes=True) as terminal:
        terminal.until("? Which colour?")
        terminal.until("answer> ")
        terminal.press("re\n")
        terminal.until("answer must be one of: red, green")
        terminal.until("answer> ")
        terminal.press("g\t")
        terminal.until("green")
        terminal.press("\n")
        terminal.until("green")
        assert terminal.ended() == 0


@pytest.mark.slow("starts the command in a terminal")
@pytest.mark.parametrize("command", [("run-tool", "pick", "--store"), ("call", "pick")])
def test_a_prompt_ends_when_its_question_is_answered_elsewhere(
    project: Path, command: tuple[str, ...], run: Run
) -> None:
    (project / "tools" / "pick.py").write_text(PICK)
    with Terminal(*command, cwd=project) as terminal:
        terminal.until("answer> ")
        terminal.press("gr")
        (question,) = json.loads(run("answer", "--json")[1])["questions"]
        run("answer", question["id"], "red")
        terminal.until("the question was answered elsewhere, or withdrawn")
        terminal.until("red")
        assert terminal.ended() == 0
