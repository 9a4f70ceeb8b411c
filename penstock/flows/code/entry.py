"""Runs the module of a code step in the sandbox.

The module runs as a script tool that only this step can call. It therefore has the guarantees of
script tools: a timeout, host calls that are recorded below the frame of the visit, and an outcome
that is settled once, so that a visit interrupted by a crash is replayed and not repeated. It gets
no vault and no state; egress and tools are what the step declares. The text of the module is the
one stored with the run. Tests: tests/flows/code/test_entry.py,
tests/journeys/test_flow_code_killed.py.
"""

import asyncio
import posixpath
from typing import Any

from msgspec.structs import replace

from penstock.core.call import Call, CallPath, Origin, frame_above
from penstock.core.call_errors import BudgetExceeded
from penstock.core.events.flow_events import FlowRequested, FlowStarted
from penstock.core.json_values.json_text import canonical
from penstock.engine.ledger import Ledger
from penstock.flows.checks.context import CheckContext
from penstock.flows.checks.modules import WRITTEN, module_of, stems
from penstock.flows.code.results import conclude
from penstock.flows.code.steps import CodeEnvironment, CodeVisit, InvokerWith
from penstock.flows.definition import Code
from penstock.flows.project.files import command_of
from penstock.flows.project.modules import RunFiles
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.resources.hosts import read_patterns
from penstock.tools.access.policy import SCRIPT, Caller
from penstock.tools.invocation import NestedCalls
from penstock.tools.invoker import Invoker
from penstock.tools.scripts.script import ScriptTool
from penstock.tools.spec import ANY_INPUT, ToolSpec

SOONEST_SHARE, MOST_EARLY_MS = 10, 100
"""`ctx.signal` fires a tenth of the timeout early, at most 100 ms, so that code can react."""


async def enter(
    visit: CodeVisit, ledger: Ledger, code_environment: CodeEnvironment, door: InvokerWith
) -> VisitOutcome:
    """Carry out a visit to its end.

    Raises Suspend if it waits for a person, Cancel if the cancellation of the task was requested.
    """
    started, step = _started(ledger, visit.frame), visit.step
    command, texts = _command(ledger, visit.frame, started), started.texts
    around = CheckContext(file=started.file, command=command, has_file=texts.__contains__)
    path = module_of(step, around)
    if path is None:
        return failed("code_node", _missing(step, around))
    beside = RunFiles(texts, posixpath.dirname(path))
    loaded = await asyncio.to_thread(code_environment.modules.load, path, beside)
    if loaded.script is None:
        return failed("code_node", f"the handler is broken: {loaded.problems[0]}")
    try:
        egress = read_patterns(step.egress)
    except ValueError as error:
        return failed("code_node", f"egress of step {step.step_id!r}: {error}")
    bindings = replace(code_environment.usual, vault=(), state=(), egress=egress)
    tool = ScriptTool(
        _spec(step), loaded.script, bindings=bindings, sandbox=code_environment.sandbox
    )
    return await _call(tool, visit, ledger, door(tool), command=command)


async def _call(
    tool: ScriptTool, visit: CodeVisit, ledger: Ledger, invoker: Invoker, *, command: str
) -> VisitOutcome:
    tool_id = tool.spec.tool_id
    values = _input(visit, command)
    path = ledger.occurrences(visit.frame).path(tool_id, canonical(values))
    caller = Caller(
        origin=Origin.FLOW,
        profile=visit.profile,
        agent_tools=frozenset({tool_id}),
        is_autonomous=visit.is_autonomous,
    )
    call = Call(path, tool_id, values)
    envelope = await invoker.call(call, caller, ledger, NestedCalls(tool.spec))
    error, settled = envelope.error, ledger.find(path)
    # A budget error inside a module that ran is the module's own failure, unless the whole run is
    # out of time.
    if error is not None and error.code == BudgetExceeded.code:
        has_run = settled is not None and settled.ran
        if not has_run or ledger.budget.seconds_left() <= 0:
            return failed("budget", error.message, is_hard=True)
    return conclude(visit.step, envelope)


def _started(ledger: Ledger, frame: CallPath) -> FlowStarted:
    """Return the start event of the flow that a visit belongs to."""
    run = frame_above(frame)
    return next(
        event for path, event in ledger.task.story if isinstance(event, FlowStarted) and path == run
    )


def _command(ledger: Ledger, frame: CallPath, started: FlowStarted) -> str:
    """Return the command of a visit's flow. A nested flow's command follows from its path."""
    task = ledger.task
    is_inside = frame_above(frame) != CallPath(task.task_id)
    if is_inside or not isinstance(task.brief, FlowRequested):
        return command_of(started.file, started.root)
    return task.brief.command


def _missing(step: Code, around: CheckContext) -> str:
    expected = next(iter(stems(step, around)), step.target)
    suffix = f".{WRITTEN}" if step.target is None else ""
    return (
        f"no handler for step {step.step_id!r}: expected {expected}{suffix}; "
        f"penstock flow generate {around.command} writes a first one"
    )


def _spec(step: Code) -> ToolSpec:
    return ToolSpec(
        tool_id=f"{step.kind.value}:{step.step_id}",
        description=f"The handler of step {step.step_id!r}.",
        input_schema=ANY_INPUT,
        timeout_ms=step.timeout,
        is_frame=True,
        is_offered=False,
        script_tools=frozenset(step.tools),
        kind=SCRIPT,
    )


def _input(visit: CodeVisit, command: str) -> dict[str, Any]:
    step = visit.step
    early = min(step.timeout // SOONEST_SHARE, MOST_EARLY_MS)
    return {
        "input": dict(visit.inputs),
        "about": {"flowName": command, "stepId": step.step_id, "task": visit.task},
        "signalMs": max(step.timeout - early, 1),
    }
