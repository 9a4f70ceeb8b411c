"""Flows with code steps: modules in the sandbox, the log in memory."""

import pytest

from penstock.core.events.events import NoteEmitted
from penstock.core.events.flow_events import Outcome
from penstock.core.ids import LogId
from penstock.flows.steps.kind import CodeEnvironment
from tests.kit.code_environment import place_of, run_code, settled, visit
from tests.kit.flows import RUN

DO = "export default"
WORDS = """
  - {id: give, type: code, outputs: [list]}
  - id: count
    type: code
    inputs: {text: "say ${{task}}", list: "${{result.give.list}}"}
    outputs: [{name: words, type: number}, {name: list, type: array}]
  - {id: report, agent: writer, task: "${{result.count.words}} ${{result.count}}"}
"""


async def test_a_module_receives_typed_inputs_and_returns_typed_outputs(
    code_environment: CodeEnvironment,
) -> None:
    """Input: whole-value templates typed, others text; any JSON, kept typed."""
    count = """
        interface Input { text: string; list: unknown[] }
        export default async ({ text, list }: Input) => ({ words: text.split(" ").length, list });
    """
    modules = {
        "count.ts": count,
        "give.js": "export const run = () => ({ list: [1, { k: null }] })",
    }
    envelope = await run_code(code_environment, WORDS, modules)
    results = envelope.output["results"]
    assert results["count"]["outputs"] == {"words": 3, "list": [1, {"k": None}]}
    assert results["count"]["summary"] == "returned words, list"
    assert results["report"]["summary"] == '3 {"words":3,"list":[1,{"k":null}]} done'


CONTEXT = """
    export default async function run(input, ctx) {
      ctx.logger("it begins");
      ctx.setSummary(`${ctx.stepId} of ${ctx.flowName}`);
      const { cwd, task, signal } = ctx;
      return { seen: [cwd, task, signal.aborted, signal instanceof AbortSignal, input.none] };
    }
"""


async def test_a_module_knows_its_flow_and_step(code_environment: CodeEnvironment) -> None:
    text = "  - {id: count, type: code, outputs: [seen], inputs: {none: '${{result.x.y}}'}}"
    place = place_of(code_environment, text, {"count.mjs": CONTEXT})
    envelope = await run_code(code_environment, text, {}, place=place)
    count = envelope.output["results"]["count"]
    assert count["summary"] == "count of demo"
    assert count["seen"] == [".", "the task", False, True, ""]
    assert envelope.output["warnings"] == ["${{result.x.y}} names nothing"]
    events = [each.event for each in await place.log.read(LogId(RUN))]
    notes = [each.payload for each in events if isinstance(each, NoteEmitted)]
    assert notes == [{"level": "info", "text": "it begins"}]


ONE = ", outputs: [{name: n, type: number}]"
HARD = "throw new FlowHardError('no');"
IMPORTED = "import { FlowHardError as Stop } from '@any/pi-flows';"
PACKAGE = "import type { Flow } from 'pi-any'; import { type A, FlowHardError } from 'x/pi-flows';"


@pytest.mark.parametrize(
    ("module", "fields", "source"),
    [
        (f"{DO} () => ({{ n: 1 }})", ONE, ""),
        (f"{DO} () => {{}}", "", ""),
        (f"{DO} async () => null", "", ""),
        (f"{DO} () => ({{}})", "", ""),
        ("export function run() {}", "", ""),
        (f"{DO} () => ({{}})", ONE, "code_node"),
        (f"{DO} () => ({{ n: 1, m: 2 }})", ONE, "code_node"),
        (f"{DO} () => ({{ n: '1' }})", ONE, "code_node"),
        (f"{DO} () => [1]", "", "code_node"),
        (f"{DO} () => 'done'", "", "code_node"),
        (f"{DO} () => ({{ n: 'b' }})", ", outputs: [{name: n, pattern: '^a'}]", "code_node"),
        (f"{DO} () => ({{ n: 'ab' }})", ", outputs: [{name: n, pattern: '^a'}]", ""),
        (f"{DO} () => {{ throw new Error('no'); }}", "", "code_node"),
        (f"{DO} () => {{ throw 'no'; }}", "", "code_node"),
        (f"{DO} () => ({{ n: 1n }})", ONE, "code_node"),
        (f"{DO} () => new Promise(() => {{}})", "", "code_node"),
        (f"{DO} 7;", "", "code_node"),
        ("export const other = 1;", "", "code_node"),
        ("import fs from 'node:fs'; export default () => {};", "", "code_node"),
        ("enum A { B } export default () => {};", "", "code_node"),
        (f"{DO} () => {{", "", "code_node"),
        ("throw new Error('early'); export default () => {};", "", "code_node"),
        (f"{DO} () => {{ {HARD} }}", "", "flow_hard_error"),
        (f"{HARD} {DO} () => {{}}", "", "flow_hard_error"),
        (f"{IMPORTED} {DO} async () => {{ throw new Stop('no'); }}", "", "flow_hard_error"),
        (f"{PACKAGE} {DO} async (): Promise<A> => {{ {HARD} }}", "", "flow_hard_error"),
        (
            f"class A extends Error {{ name = 'FlowHardError' }} {DO} () => {{ throw new A(); }}",
            "",
            "flow_hard_error",
        ),
        (f"{DO} () => {{}}", ", egress: ['ftp://x']", "code_node"),
        (f"{DO} async () => {{ await fetch('https://a.test/'); }}", "", "code_node"),
        (f"{DO} () => flo.vault.get({{ key: 'k' }})", "", "code_node"),
        (f"{DO} () => {{ new Function('1'); }}", "", "code_node"),
    ],
)
async def test_a_step_ends_as_its_module_does(
    code_environment: CodeEnvironment, module: str, fields: str, source: str
) -> None:
    """Missing or extra key, wrong type, plain throw, load error: soft. FlowHardError: hard."""
    event = await visit(code_environment, module, fields=fields)
    hard = Outcome.HARD if source == "flow_hard_error" else Outcome.SOFT
    assert (event.source, event.outcome) == (source, hard if source else Outcome.SUCCESS), event
    assert bool(event.text) == bool(source)
    assert event.result.status.value == ("error" if source else "complete")


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (f"{DO} () => [1]", "the handler must return an object with exactly n, found array [1]"),
        (f"{DO} () => {{ throw new Error('no paper'); }}", "no paper"),
        ("export default () => {", "flows/handlers/demo/count.ts:1:"),
        ("export default () => {};\nimport './lib.ts';", "count.ts:2:8: "),
        ("export const a = 1;", '"count.ts" must export a function, as default or as run'),
    ],
)
async def test_a_failed_module_reports_the_cause(
    code_environment: CodeEnvironment, module: str, text: str
) -> None:
    assert text in (await visit(code_environment, module, fields=ONE)).text


DECIDE = """
  - {id: count, type: code-decision, branches: {a: left, b: right}, outputs: [n], on_error: mend}
  - {id: left, agent: scout, task: left, end: true}
  - {id: right, agent: scout, task: right, end: true}
  - {id: mend, agent: scout, task: mend}
"""


@pytest.mark.parametrize(
    ("returned", "source", "branch", "ran"),
    [
        ("{ n: 1, branch: 'a' }", "", "a", ["left"]),
        ("{ n: 1, branch: 'b' }", "", "b", ["right"]),
        ("{ n: 1 }", "code_no_branch", None, ["mend"]),
        ("null", "code_no_branch", None, ["mend"]),
        ("{ branch: 'a' }", "code_node", None, ["mend"]),
        ("{ n: 1, branch: 'a', m: 2 }", "code_node", None, ["mend"]),
        ("{ n: 1, branch: 'left' }", "off_map_branch", None, []),
        ("{ n: 1, branch: ['a'] }", "off_map_branch", None, []),
        ("{ branch: 'c' }", "off_map_branch", None, []),
    ],
)
async def test_a_decision_goes_to_the_target_of_its_module(
    code_environment: CodeEnvironment,
    returned: str,
    source: str,
    branch: str | None,
    ran: list[str],
) -> None:
    """`branch` missing: soft; not in `branches`: hard."""
    place = place_of(code_environment, DECIDE, {"count.ts": f"{DO} () => ({returned})"})
    envelope = await run_code(code_environment, DECIDE, {}, place=place)
    (event,) = await settled(place)
    assert (event.source, event.result.branch) == (source, branch)
    assert (event.outcome is Outcome.HARD) is (source == "off_map_branch")
    results = envelope.output["results"]
    assert [name for name in ("left", "right", "mend") if results[name]["visits"]] == ran


ROUND = """
  - {id: make, type: code}
  - {id: count, type: code-decision, branches: {again: make, on: done}, max_iterations: 2,
     inputs: {round: "${{loop.count.iteration}}"}}
  - {id: done, agent: scout}
"""


async def test_a_decision_can_repeat_up_to_its_limit(code_environment: CodeEnvironment) -> None:
    modules = {
        "make.ts": f"{DO} () => {{}}",
        "count.ts": f"{DO} () => ({{ branch: 'again' }})",
    }
    envelope = await run_code(code_environment, ROUND, modules)
    visits = {name: each["visits"] for name, each in envelope.output["results"].items()}
    assert visits == {"make": 3, "count": 3, "done": 1}


@pytest.mark.parametrize(
    ("fields", "file", "is_found"),
    [
        ("", "flows/handlers/demo/count.mts", True),
        ("", "flows/handlers/demo/count.mjs", True),
        ("", ".pi/flows/handlers/demo/count.ts", True),
        ("", "flows/count.ts", False),
        ("", "flows/handlers/count.ts", False),
        ("", "flows/handlers/demo/count.tsx", False),
        ("", "flows/handlers/demo/count.ts.default", False),
        (", target: lib/a.ts", "flows/lib/a.ts", True),
        (", target: lib/a.ts", "lib/a.ts", True),
        (", target: ../a.ts", "./a.ts", True),
        (", target: ../../a.ts", "../a.ts", False),
        (", target: a.py", "flows/a.py", False),
        (", target: a.ts", "flows/handlers/demo/count.ts", False),
    ],
)
async def test_a_module_is_found_in_its_folder(
    code_environment: CodeEnvironment, fields: str, file: str, is_found: bool
) -> None:
    """Target; directory form; flat form; `.pi/flows/handlers/COMMAND/ID.*`."""
    text = f"  - {{id: count, type: code{fields}}}"
    place = place_of(code_environment, text, {file: f"{DO} () => {{}}"})
    envelope = await run_code(code_environment, text, {}, place=place)
    assert envelope.ok is is_found
    (event,) = await settled(place)
    assert event.source == ("" if is_found else "code_node")


async def test_a_missing_module_is_reported_with_the_expected_paths(
    code_environment: CodeEnvironment,
) -> None:
    envelope = await run_code(code_environment, "  - {id: count, type: code}", {})
    assert envelope.output["reason"] == (
        "no handler for step 'count': expected flows/handlers/demo/count.ts; "
        "penstock flow generate demo writes a first one"
    )


async def test_a_module_can_import_files_beside_it(
    code_environment: CodeEnvironment,
) -> None:
    """Import root: the handler's own directory."""
    modules = {
        "count.ts": "import { n } from './lib/n.ts'; export default () => ({ n });",
        "lib/n.ts": "export const n: number = 3;",
    }
    modules = {f"flows/handlers/demo/{name}": text for name, text in modules.items()}
    text = f"  - {{id: count, type: code{ONE}}}"
    envelope = await run_code(code_environment, text, modules)
    assert envelope.output["results"]["count"]["n"] == 3


@pytest.mark.parametrize(
    ("file", "module", "command"),
    [
        ("sub/part.yaml", "sub/handlers/part/count.ts", "sub:part"),
        ("sub/flow.yaml", "sub/count.mjs", "sub"),
        ("flow.yaml", "count.js", "flow"),
    ],
)
async def test_a_nested_flow_has_its_own_modules(
    code_environment: CodeEnvironment, file: str, module: str, command: str
) -> None:
    """Directory form: `ID.{mts,ts,mjs,js}` beside `flow.yaml`; flat form: `handlers/STEM/ID.*`."""
    part = "name: part\ndescription: d\nsteps:\n  - {id: count, type: code, outputs: [n]}\n"
    code = f"{DO} (_, {{ flowName, task }}) => ({{ n: `${{flowName}} ${{task}}` }})"
    modules = {f"flows/{file}": part, f"flows/{module}": code}
    text = f"  - {{id: inner, type: flow-ref, path: {file}}}"
    envelope = await run_code(code_environment, text, modules)
    assert envelope.output["results"]["count"]["n"] == f"{command} the task"


async def test_without_a_sandbox_code_steps_fail(code_environment: CodeEnvironment) -> None:
    event = await visit(None, f"{DO} () => {{}}")
    assert (event.source, event.outcome) == ("code_node", Outcome.SOFT)
