"""Makes a case of a recorded task, and adds it to a file of cases.

The file keeps its comments and its form: the case is appended as text, and the result is read again
before anything is written. Shown by tests/evals/test_recorded.py.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from penstock.app.runtime import Runtime
from penstock.core.errors import ConfigError, DeclarationError, NotFound
from penstock.core.events.events import MessageReceived, QuestionAsked
from penstock.core.events.flow_events import HandedOff
from penstock.core.ids import ASSISTANT
from penstock.core.reply import UserMessage
from penstock.core.text import cut, one_line
from penstock.evals.case import GRANTED, is_of_person, plain
from penstock.evals.dataset import text_of
from penstock.manifest.yaml_document import parse_yaml

NAME_CHARACTERS = 60
"""Most characters of a name that is made from a message."""
_OF_ANSWERS = ("decision", "input", "note", "value", "text")


async def case_of(
    runtime: Runtime, task_id: str, name: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the agent of a recorded task, and the task as a case of a file.

    Its output is what is expected, and its calls are scorers, in their order. Its questions get the
    same answers; if a person granted all that it asked for, the case grants approvals.

    Args:
        runtime: The runtime whose log has the task.
        task_id: The task; it has succeeded and began with a message.
        name: The name of the case; None makes one from the message.

    Raises:
        NotFound: There is no such task, or it did not begin with a message.
        ConfigError: The task has not succeeded, or its message has files.
    """
    reply = await runtime.attach(task_id).reply(timeout=0)
    if reply.status != "succeeded":
        raise ConfigError(
            f"the task {task_id} is {reply.status}: a case is made of one that succeeded"
        )
    asked = [each.text for each in reply.messages if isinstance(each, UserMessage)]
    if not asked:
        raise NotFound(f"the task {task_id} did not begin with a message to an agent")
    message = asked[0]
    events = [each.event for each in reply.recorded.records]
    if any(isinstance(each, MessageReceived) and each.attachments for each in events):
        raise ConfigError(
            f"the message of the task {task_id} has files, which a file of cases cannot hold: "
            "make the case in Python, Case(name, input=[text, Image.open(path)])"
        )
    case: dict[str, Any] = {
        "name": name or cut(one_line(message), NAME_CHARACTERS),
        "input": message,
        "expected": plain(reply.output),
    }
    case |= _answered(events)
    scorers = [{"called_tool": {"tool": each.tool, "input": each.input}} for each in reply.calls]
    # After a hand-off the reply is another agent's; the message went to the first of them.
    handed = (each.previous for each in events if isinstance(each, HandedOff))
    return next(handed, reply.agent), case | {"scorers": ["equal", *scorers]}


def _answered(events: Sequence[Any]) -> dict[str, Any]:
    """Return the members of a case by which it gets the answers that the task got."""
    given = {each.question_id: each.answer for each in events if is_of_person(each)}
    asked = [each.question.question_id for each in events if isinstance(each, QuestionAsked)]
    # In the order of the questions: of several at once, a person may answer any one first.
    answers = [_plain_answer(given[each]) for each in asked if each in given]
    if not answers:
        return {}
    return {"approve": True} if all(each == GRANTED for each in answers) else {"answers": answers}


def _plain_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer as it can be given again: without empty members and what a tool added."""
    return {name: answer[name] for name in _OF_ANSWERS if answer.get(name) is not None}


def add_case(file: Path, agent: str, case: Mapping[str, Any]) -> None:
    """Append a case to a YAML file of cases, which is made for the agent if it does not exist.

    Raises:
        ConfigError: The file cannot be read or written, asks another agent, has a case of this
            name, or does not end with its list of cases.
        DeclarationError: It is not YAML.
    """
    if file.suffix not in {".yaml", ".yml"}:
        raise ConfigError(f"{file} must end in .yaml or .yml: a case is appended as YAML")
    made = yaml.safe_dump({"agent": agent}, allow_unicode=True) + "cases:\n"
    text = text_of(file) if file.exists() else made
    if problems := parse_yaml(text, str(file)).problems:
        raise DeclarationError(problems)
    asks = _field(text, file, "agent") or ASSISTANT
    if asks != agent:
        raise ConfigError(
            f"{file} asks the agent {asks!r}, but the task is one of {agent!r}: "
            "choose another file with --file"
        )
    before = _cases(text, file)
    if any(each.get("name") == case["name"] for each in before if isinstance(each, dict)):
        raise ConfigError(f"{file} has a case named {case['name']!r}: choose another with --name")
    block = yaml.safe_dump([dict(case)], sort_keys=False, allow_unicode=True, width=100)
    indent = _indent_of_cases(text)
    lines = "".join(f"{indent}{line}\n" for line in block.splitlines())
    longer = text.rstrip("\n") + "\n" + lines
    if _cases(longer, file) != [*before, dict(case)]:
        raise ConfigError(
            f"{file} does not end with its list of cases in block style, so the case cannot be "
            f"appended; add it by hand:\n{lines}"
        )
    try:
        ending = "\r\n" if file.exists() and b"\r\n" in file.read_bytes() else "\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(longer, encoding="utf-8", newline=ending)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from None


def _field(text: str, file: Path, key: str) -> Any:
    """Return a field of a file of cases; None if it has none."""
    document = parse_yaml(text, str(file))
    is_read = isinstance(document.value, dict) and not document.problems
    return document.value.get(key) if is_read else None


def _cases(text: str, file: Path) -> list[Any]:
    cases = _field(text, file, "cases") or []
    return cases if isinstance(cases, list) else []


def _indent_of_cases(text: str) -> str:
    """Return the white space before the items of the last list in the text."""
    items = [line for line in text.splitlines() if line.lstrip().startswith("- ")]
    inner = [line[: len(line) - len(line.lstrip())] for line in items]
    return min(inner, key=len, default="  ")
