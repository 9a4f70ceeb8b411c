"""Runs one tool for real, except for what a mocks file replaces."""

import json
import sys
from collections import deque
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from penstock.app.project import Project, check_root, find_root
from penstock.app.runtime import outcome_of
from penstock.app.trial.mocks import read_mocks
from penstock.app.trial.trial import Trial, TrialPlan, load_for_trial, open_trial
from penstock.chat.requests import NewCall, TaskReply
from penstock.chat.wire_forms import question_record
from penstock.cli.completion import answers_to, every_tool
from penstock.cli.interaction.asking import NO, YES, Asker, show_waiting, text_answer
from penstock.cli.interaction.loop_thread import Background
from penstock.cli.options import (
    EngineName,
    ProjectFolder,
    SkillNames,
    ToolInput,
    read_object,
    taking,
)
from penstock.cli.project import print_findings, selected
from penstock.cli.terminal.exit_codes import FAILED, INTERRUPTED, OF_CALLS
from penstock.cli.terminal.output import AsJson, note, pasted, pretty, print_json, say
from penstock.cli.terminal.positions import excerpt, place_of
from penstock.cli.terminal.render import question_line
from penstock.cli.terminal.timeline import Timeline
from penstock.core.call_errors import ToolNotFound
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.errors import ConfigError
from penstock.core.ids import ASSISTANT
from penstock.core.json_values.json_text import parse_json
from penstock.core.profile import LOCAL_PROFILE, Profile
from penstock.core.scopes import ScopeKind
from penstock.core.task import QuestionKind, QuestionRecord, TaskStatus
from penstock.tools.tool import Registry

NOT_DIRECT = (
    "This call cannot be answered later, because `penstock answer` resumes only tools that allow "
    "direct calls (`direct_call: true`)."
)
NOT_KEPT = "With --store the question is stored, so that `penstock answer` can answer it later."
BINDINGS_NOTE = 'The mocks\' "state_bindings" are ignored; those of the manifest apply.'


class Options(Struct, frozen=True, kw_only=True):
    """Options of `penstock run-tool`."""

    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="The tool's id.", autocompletion=every_tool)
    ]
    given: ToolInput = None
    mocks: Annotated[
        Path | None,
        typer.Option(
            "--mocks", metavar="FILE", help="Mocked secrets, values, state, tools and servers."
        ),
    ] = None
    skill: SkillNames = None
    permission: Annotated[
        list[str] | None,
        typer.Option(
            "--permission",
            metavar="NAME",
            help="Give the caller only this permission; repeatable. Default: all permissions.",
        ),
    ] = None
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer", metavar="TEXT", help="The answer to the next question; repeatable."
        ),
    ] = None
    store: Annotated[
        bool,
        typer.Option("--store", help="Use the project's store and vault instead of memory."),
    ] = False
    write_state: Annotated[
        bool, typer.Option("--write-state", help="Write the state back into the mocks file.")
    ] = False
    engine: EngineName = None
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(Options)
def run_tool(options: Options) -> None:
    """Run one tool and print its envelope.

    Logs and events of the tool go to stderr. Each `--answer` answers one question, in order
    (approve or reject for approvals); at a terminal you are prompted for the rest. Exit codes: 0
    success, 1 failed or timed out, 2 wrong usage, 3 invalid input, 4 waiting for a person.
    """
    tool_input = read_object(options.given, "--input")
    root = find_root(Path()) if options.project is None else check_root(options.project)
    plan, project, context = _prepared(root, options)
    if (missing := _missing(project, plan.tool_id)) is not None:
        _show(missing, options)
    try:
        with Background() as background:
            trial = background.enter(context)
            try:
                is_direct = Registry(project.every_tool).get(plan.tool_id).spec.direct_call
                one = _OneTrial(trial, background, options, is_direct=is_direct)
                envelope = one.outcome(tool_input)
                if options.write_state and options.mocks is not None:
                    _write_state(options.mocks, background.do(trial.state()))
            finally:
                background.leave(context)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if envelope.error is not None:
        _show_place(project, plan.tool_id, envelope.error)
    _show(envelope, options)


def _prepared(root: Path, options: Options) -> tuple[TrialPlan, Project, Any]:
    """Return the plan of the trial, the project, and the context that opens the trial."""
    raw = {} if options.mocks is None else read_object(f"@{options.mocks}", "--mocks")
    if options.write_state and (options.mocks is None or options.store):
        raise typer.BadParameter("--write-state needs --mocks, and cannot be used with --store")
    settings, project = load_for_trial(root, _texts(raw.get("runtime_config")), options.engine)
    in_outcome = project.bundle.broken_tools.get(options.tool, ())
    print_findings(project, options.tool, reported=in_outcome)
    try:
        mocks = read_mocks(raw, [each.spec.tool_id for each in project.every_tool])
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    if mocks.has_state_bindings:
        note(BINDINGS_NOTE)
    if mocks.state and options.store:
        raise typer.BadParameter(
            '--store uses the state of the project: remove "state" from the mocks'
        )
    plan = TrialPlan(tool_id=options.tool, mocks=mocks, keeps=options.store)
    return plan, project, open_trial(settings, project, plan)


def _texts(value: Any) -> dict[str, str]:
    """Return the configuration texts of the mocks. `read_mocks` reports values of other types."""
    texts = value if isinstance(value, dict) else {}
    return {key: each for key, each in texts.items() if isinstance(each, str)}


def _missing(project: Project, tool_id: str) -> Envelope | None:
    try:
        Registry(project.every_tool).get(tool_id)
    except ToolNotFound as error:
        note("Run `penstock tools list` to see all tools.")
        return error.envelope()
    return None


class _OneTrial:
    """One call of the tool under trial, and where the answers to its questions come from."""

    def __init__(
        self, trial: Trial, background: Background, options: Options, *, is_direct: bool
    ) -> None:
        self._trial = trial
        self._tool_id, self._skills = options.tool, options.skill or []
        self._keeps = options.store
        self._is_direct = is_direct
        self._goes_on = options.store and is_direct
        self._background = background
        self._answers = deque(options.answer or ())
        is_asking = sys.stdin.isatty() and options.given != "-"
        self._asker = Asker(trial.runtime, background) if is_asking else None
        self._profile = LOCAL_PROFILE
        if options.permission is not None:
            self._profile = Profile(permissions=frozenset(options.permission))

    def outcome(self, tool_input: dict[str, Any]) -> Envelope:
        """Make the call; return its outcome once it ends or a question stays unanswered."""
        runtime, task_id = self._trial.runtime, self._trial.task_id
        skills = selected(runtime, ASSISTANT, self._skills, self._profile)
        call = NewCall(tool_id=self._tool_id, input=tool_input, selected_skills=skills)
        self._background.do(runtime.start_call(call, self._profile, task_id=task_id))
        timeline = Timeline(runtime, task_id, asks=False)
        while True:
            self._background.do(timeline.show())
            reply = self._background.do(runtime.requests.wait(task_id))
            assert reply is not None  # noqa: S101  there is no limit of time
            if reply.status is not TaskStatus.SUSPENDED or not self._answered(reply):
                show_waiting(reply.questions, self._how(reply))
                return outcome_of(reply)

    def _how(self, reply: TaskReply) -> str | None:
        """Return how to answer, if `penstock answer` cannot resume this call."""
        if not reply.questions or self._goes_on:
            return None
        ways = " or ".join(pasted("--answer", each) for each in answers_to(reply.questions[0]))
        again = f"No answer was given. Run it again with {ways}, or at a terminal to be prompted."
        if self._keeps:
            return f"{again} {NOT_DIRECT}"
        return f"{again} {NOT_KEPT if self._is_direct else NOT_DIRECT}"

    def _answered(self, reply: TaskReply) -> bool:
        """Answer the first question from the options or the person; False if it stays open."""
        record = reply.questions[0]
        if self._answers:
            note(question_line(record.question))
            body = _body(record, self._answers.popleft())
            self._background.do(
                self._trial.runtime.requests.answer(record.question.question_id, body)
            )
            return True
        return self._asker is not None and any(map(self._asker.meet, reply.questions))


def _body(record: QuestionRecord, text: str) -> dict[str, Any]:
    if record.question.kind is not QuestionKind.APPROVAL:
        return text_answer(question_record(record), text)
    word = text.strip().lower()
    if word not in YES | NO:
        raise typer.BadParameter(f"--answer to an approval is approve or reject, found {text!r}")
    return {"decision": "approve" if word in YES else "reject"}


def _show_place(project: Project, tool_id: str, error: ErrorDetail) -> None:
    tools = {each.tool_id: each for each in project.bundle.every_tool}
    place = place_of(error, tools.get(tool_id))
    if place is not None:
        note(excerpt(project, place))


def _show(envelope: Envelope, options: Options) -> None:
    wire = envelope.to_wire()
    if options.as_json:
        print_json(wire)
    else:
        say(pretty(wire))
    raise typer.Exit(OF_CALLS.get(envelope.status, FAILED))


def _write_state(file: Path, state: dict[str, Any]) -> None:
    whole = parse_json(file.read_bytes()) | {"state": state}
    kinds = [each.value for each in ScopeKind]
    whole["state"] = {kind: state[kind] for kind in kinds if kind in state}
    file.write_text(json.dumps(whole, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
