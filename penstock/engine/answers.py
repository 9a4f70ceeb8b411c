"""Checks answers to questions, and converts them to the one form that the log stores.

It guarantees that an answer without problems is one that its question accepts and the log can
store. `check_answer` is strict and the same for all callers; each problem names its field, and a
field that it does not know is a problem. What an answer may be depends on the question: a decision
with an optional edited input for an approval, text for a message, otherwise a value that the form,
the schema or the options accept.

`answer_in_words` is lenient and only for a line that a person typed. It never decides: it makes a
body, which `check_answer` then checks. Proof: tests/engine/test_answers.py.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.core.json_values.json_text import parse_json
from penstock.core.json_values.schema import Schema, json_problems
from penstock.core.task import Option, Question, QuestionKind

OTHER = "Other (describe)"
"""The last option of a question that also accepts free text."""
ANSWER_CHARACTERS = 10_000

Normal = dict[str, Any]
Problems = list[dict[str, str]]
Outcome = tuple[Normal, Problems]

_YES_NO = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_SAID = ("value", "text", "answer")
_WAYS = ("cancel", "decide")
"""Replies instead of an answer: give up on the question, or let an agent decide."""


def check_answer(question: Question, body: object, depth: int) -> Outcome:
    """Return the stored form of an answer, or its problems; one of the two is empty.

    `depth` is how deep its values may be nested.
    """
    if not isinstance(body, Mapping):
        said = f"an answer is an object, such as {_example(question)}; found {body!r:.100}"
        return {}, [_problem("", said)]
    if question.kind is QuestionKind.APPROVAL:
        normal, problems = _approval(question, body)
    elif question.kind is QuestionKind.USER_MESSAGE:
        normal, problems = _message(question, body)
    else:
        normal, problems = _reply(question, body)
    lost = [
        _problem(f"/{name}{each.path}", each.message)
        for name, value in normal.items()
        for each in json_problems(value, depth)
    ]
    return _outcome(normal, problems + lost)


def answer_in_words(
    text: str,
    *,
    kind: QuestionKind,
    options: Sequence[Option] = (),
    form: Mapping[str, Any] | None = None,
    has_schema: bool = False,
) -> Normal:
    """Return the answer body for a line that a person typed in a chat or terminal.

    There `yes`, `no`, `y` and `n` answer a confirm, an option is meant by its number, its name or
    an alias, and commas separate several. The API takes none of this: `check_answer` judges the
    body that is returned like any other.
    """
    said = text.strip()
    how = (form or {}).get("type")
    if kind is QuestionKind.USER_MESSAGE or how == "input" or not (options or how):
        return {"text": text}
    if how == "confirm":
        meant = _YES_NO.get(_plain(said))
        return {"text": text} if meant is None else {"value": meant}
    offered = tuple(each for each in options if form is None or each.value != OTHER)
    if (option := find_option(offered, said)) is not None:
        # As text where a schema judges it: the option "2" may stand for the number.
        value = option.value
        return {"text" if has_schema else "value": [value] if _is_multiple(form) else value}
    if not _is_multiple(form):
        return {"text": text}
    parts = [part.strip() for part in said.split(",") if part.strip()]
    found = [(find_option(offered, part), part) for part in parts]
    return {"value": [part if option is None else option.value for option, part in found]}


def find_option(options: Sequence[Option], text: str) -> Option | None:
    """Return the option that a person means by its value, label, an alias or its number."""
    said = _plain(text)
    for option in options:
        if said in map(_plain, (option.value, option.label, *option.aliases)):
            return option
    numbers = map(str, range(1, len(options) + 1))
    return next(
        (each for each, number in zip(options, numbers, strict=True) if number == said), None
    )


def _example(question: Question) -> str:
    if question.kind is QuestionKind.APPROVAL:
        return '{"decision": "approve"}'
    if question.kind is QuestionKind.USER_MESSAGE:
        return '{"text": "…"}'
    if (question.form or {}).get("type") == "confirm":
        return '{"value": true}'
    values = [each.value for each in question.options[:1]] or ["…"]
    return json.dumps(
        {"value": values if _is_multiple(question.form) else values[0]}, ensure_ascii=False
    )


def _approval(question: Question, body: Mapping[str, Any]) -> Outcome:
    problems = _unknown(body, ("decision", "input", "note"))
    decision, edited, note = body.get("decision"), body.get("input"), body.get("note")
    if decision not in ("approve", "reject"):
        problems.append(_problem("/decision", "must be approve or reject"))
    if note is not None and not _is_text(note):
        problems.append(_problem("/note", f"must be text of at most {ANSWER_CHARACTERS} letters"))
    if edited is not None:
        problems += _input_problems(question, edited, decision)
    normal = {"decision": decision, "input": edited, "note": note or None}
    return _outcome({key: each for key, each in normal.items() if each is not None}, problems)


def _input_problems(question: Question, edited: Any, decision: Any) -> Problems:
    if decision != "approve":
        return [_problem("/input", "is allowed only with the decision approve")]
    if not isinstance(edited, dict):
        return [_problem("/input", "must be an object")]
    found = Schema(question.input_schema or {}).problems(edited)
    return [_problem(f"/input{each.path}", each.message) for each in found]


def _message(question: Question, body: Mapping[str, Any]) -> Outcome:
    problems = _unknown(body, ("text", "resume_payload"))
    text = body.get("text")
    if not isinstance(text, str) or not text.strip():
        problems.append(_problem("/text", "must be text, and not blank"))
    if question.schema is not None and "resume_payload" in body:
        found = Schema(question.schema).problems(body["resume_payload"])
        problems += [_problem(f"/resume_payload{each.path}", each.message) for each in found]
    return _outcome(question.handed_back | dict(body), problems)


def _reply(question: Question, body: Mapping[str, Any]) -> Outcome:
    can_decide = question.form is not None and bool(question.form.get("allowDecide"))
    problems = _unknown(body, (*_SAID, "notes", "cancel", *(("decide",) if can_decide else ())))
    notes = body.get("notes")
    if notes is not None and not _is_text(notes):
        problems.append(_problem("/notes", f"must be text of at most {ANSWER_CHARACTERS} letters"))
    if notes and question.form is not None and question.form.get("allowNotes") is False:
        problems.append(_problem("/notes", "this question takes no notes: leave them out"))
    problems += [
        _problem(f"/{name}", "must be true, or left out")
        for name in _WAYS
        if not isinstance(body.get(name), bool | None)
    ]
    given_up = next((name for name in _WAYS if body.get(name) is True), None)
    if notes and given_up:
        problems.append(_problem("/notes", f"are allowed only with an answer, not with {given_up}"))
    if given_up and any(name in body for name in _SAID):
        problems.append(_problem(f"/{given_up}", "cannot be combined with an answer: remove one"))
    if problems:
        return {}, problems
    if given_up:
        return {given_up: True}, []
    given = [name for name in _SAID if name in body]
    if len(given) > 1 or (not given and question.form is None):
        return {}, [_problem("", "must hold exactly one of value, text, answer")]
    field = given[0] if given else "value"
    normal, issue = _said(question, body.get(field), field)
    if issue:
        return {}, [_problem(f"/{field}", issue)]
    return normal | ({"notes": notes} if notes else {}), []


def _said(question: Question, said: Any, field: str) -> tuple[Normal, str]:
    """Return the chosen form of the answer, or its problem."""
    if question.form is not None:
        value, issue = _typed(question, question.form, said)
        return {"value": value}, issue
    if question.schema is not None:
        return _shaped(Schema(question.schema), said, is_text=field != "value")
    if question.options:
        return _chosen(question.options, said, is_text=field != "value")
    if not isinstance(said, str) or not said.strip():
        return {}, "answer must be text"
    return {"text": said}, ""


def _shaped(schema: Schema, said: Any, *, is_text: bool) -> tuple[Normal, str]:
    found = schema.problems(said)
    if found and is_text and isinstance(said, str):
        try:
            value = parse_json(said)
        except (ValueError, RecursionError):
            value = said
        if not schema.problems(value):
            return {"value": value}, ""
    return {"value": said}, "; ".join(map(str, found))


def _chosen(options: tuple[Option, ...], said: Any, *, is_text: bool) -> tuple[Normal, str]:
    """Return the option; text that names none is an answer in free text."""
    if is_text:
        if not isinstance(said, str) or not said.strip():
            known = ", ".join(option.value for option in options)
            return {}, f"answer must be text: one of {known}, or words of your own"
        option = find_option(options, said)
        return ({"value": option.value} if option else {"text": said}), ""
    if any(said == option.value for option in options):
        return {"value": said}, ""
    return {}, f"must be one of: {', '.join(option.value for option in options)}"


def _typed(question: Question, form: Mapping[str, Any], said: Any) -> tuple[Any, str]:
    if form["type"] == "confirm":
        return said, "" if isinstance(said, bool) else "answer must be true or false"
    if form["type"] == "input":
        is_empty = said is None or (isinstance(said, str) and not said.strip())
        if is_empty and form.get("defaultValue") is not None:
            return form["defaultValue"], ""
        is_blank = question.kind is QuestionKind.TASK and not str(said).strip()
        return said, "" if _is_text(said) and not is_blank else "answer must be text"
    options = [each.value for each in question.options if each.value != OTHER]
    is_open = bool(form.get("allowCustom"))
    if _is_multiple(form):
        is_needed = question.kind is QuestionKind.FORK
        return _several(options, said, is_open=is_open, is_needed=is_needed)
    return said, _one(options, said, _wanted("one of", options), is_open=is_open)


def _one(options: Sequence[str], said: Any, wanted: str, *, is_open: bool) -> str:
    """Return why a value is neither an option nor, where allowed, free text."""
    if said in options:
        return ""
    if not is_open or not isinstance(said, str):
        return wanted
    is_described = said.strip() and _plain(said) != _plain(OTHER) and _is_text(said)
    return "" if is_described else "describe your answer"


def _several(
    options: Sequence[str], said: Any, *, is_open: bool, is_needed: bool
) -> tuple[Any, str]:
    wanted = _wanted("a list of", options)
    if not isinstance(said, list) or (is_needed and not said):
        return None, wanted
    if issue := next(filter(None, (_one(options, e, wanted, is_open=is_open) for e in said)), ""):
        return None, issue
    own = [each for each in said if each not in options]
    is_repeated = len({*said}) < len(said)
    return said, wanted if is_repeated or len(own) > 1 else ""


def _is_multiple(form: Mapping[str, Any] | None) -> bool:
    return form is not None and bool(form.get("multiSelect"))


def _wanted(form: str, options: Sequence[str]) -> str:
    return f"answer must be {form}: {', '.join(options)}"


def _is_text(said: Any) -> bool:
    return isinstance(said, str) and len(said) <= ANSWER_CHARACTERS


def _plain(text: str) -> str:
    return text.strip().casefold()


def _unknown(body: Mapping[str, Any], known: tuple[str, ...]) -> Problems:
    wanted = f"is not known; the known fields are {', '.join(known)}"
    return [_problem(f"/{name}", wanted) for name in body if name not in known]


def _problem(field: str, issue: str) -> dict[str, str]:
    return {"field": field, "issue": issue}


def _outcome(normal: Normal, problems: Problems) -> Outcome:
    return ({}, problems) if problems else (normal, [])
