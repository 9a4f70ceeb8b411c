"""Calls one tool, as a program would; `--trace` prints the hops."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from penstock.app.runtime import Runtime, outcome_of
from penstock.chat.parts import question_record
from penstock.cli.asking import ask
from penstock.cli.exit_codes import FAILED, OF_CALLS
from penstock.cli.options import AsJson, ProjectFolder
from penstock.cli.output import note, print_json
from penstock.cli.project import run
from penstock.cli.render import Screen, clean, envelope_text
from penstock.cli.trace import Trace
from penstock.core.envelope import Envelope, Json, Status
from penstock.core.ids import QuestionId, TaskId
from penstock.tools.tool import Tool

ToolName = Annotated[str, typer.Argument(metavar="TOOL", help="Which tool.")]
Pairs = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its input, a member each.")
]
Input = Annotated[
    str | None, typer.Option("--input", "-i", help="Its input: JSON, @FILE, or - for stdin.")
]
WithTrace = Annotated[bool, typer.Option("--trace", help="Print every hop of the call.")]


def call(
    tool: ToolName,
    pairs: Pairs = None,
    *,
    given: Input = None,
    with_trace: WithTrace = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Call one tool that allows direct calls, and print its outcome.

    Exit codes: 0 success, 1 failed, 3 the input is not valid, 4 it waits for a person.
    """
    trace = Trace()

    async def work(runtime: Runtime) -> Envelope:
        known = runtime.parts.invoker.registry.find(tool)
        members = _whole(given) | _members(known, pairs or [])
        with trace.watch(is_wanted=with_trace):
            envelope = await runtime.call(tool, members)
        if sys.stdin.isatty() and not as_json:
            envelope = await _answered(runtime, envelope)
        return envelope

    envelope = run(project, work)
    if with_trace:
        note(trace.text())
    if as_json:
        print_json(envelope.to_wire())
    else:
        print(clean(envelope_text(envelope)))
    raise typer.Exit(OF_CALLS.get(envelope.status, FAILED))


def _whole(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"--input cannot read {given[1:]}: {error}") from None
    else:
        text = given
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"--input must be JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"--input must be a JSON object, found {type(value).__name__}")
    return value


def _members(tool: Tool | None, pairs: list[str]) -> dict[str, Any]:
    """Read `key=value`s: a value is JSON, unless the tool wants a text there."""
    properties = (tool.spec.input_schema if tool else {}).get("properties", {})
    members: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"an input is key=value, found {pair!r}")
        members[key] = _value(properties.get(key, {}), text)
    return members


def _value(schema: Json, text: str) -> Any:
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _answered(runtime: Runtime, envelope: Envelope) -> Envelope:
    """Ask the person what the call waits for, until it waits no more."""
    screen = Screen(Console(highlight=False, stderr=True))
    while envelope.status is Status.SUSPENDED and envelope.error and envelope.error.details:
        details = envelope.error.details
        question_id = QuestionId(details["question_ids"][0])
        record = await runtime.parts.projections.find_question(question_id)
        if record is None:
            return envelope
        part = question_record(record)
        screen.question(part)
        try:
            body = ask(part, input)
        except EOFError:
            return envelope
        await runtime.answer(question_id, body)
        reply = await runtime.wait(TaskId(details["task_id"]))
        if reply is None:
            return envelope
        envelope = outcome_of(reply)
    return envelope
