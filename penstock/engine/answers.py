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
_FIELDS = ("value", "text", "answer")
_WAYS = ("cancel", "decide")
"""Replies instead of an answer: give up on the question, or let an agent decide."""


def check_answer(question: Question, body: object, depth: int) -> Outcome:
    """Return the stored form of an answer, or its problems; one of the two is empty.

    `depth` is how deep its values may be nested.
    """
    if not isinstance(body, Mapping):
        message = f"an answer is an object, such as {_example(question)}; found {body!r:.100}"
        return {}, [_problem("", message)]
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
    answer = text.strip()
    how = (form or {}).get("type")
    if kind is QuestionKind.USER_MESSAGE or how == "input" or not (options or how):
        return {"text": text}
    if how == "confirm":
        meant = _YES_NO.get(_plain(answer))
        return {"text": text} if meant is None else {"value": meant}
    offered = tuple(each for each in options if form is None or each.value != OTHER)
    if (option := find_option(offered, answer)) is not None:
        # As text where a schema judges it: the option "2" may stand for the number.
        value = option.value
        return {"text" if has_schema else "value": [value] if _is_multiple(form) else value}
    if not _is_multiple(form):
        return {"text": text}
    parts = [part.strip() for part in answer.split(",") if part.strip()]
    matches = [(find_option(offered, part), part) for part in parts]
    return {"value": [part if option is None else option.value for option, part in matches]}


def find_option(options: Sequence[Option], text: str) -> Option | None:
    """Return the option that a person means by its value, label, an alias or its number."""
    plain = _plain(text)
    for option in options:
        if plain in map(_plain, (option.value, option.label, *option.aliases)):
            return option
    numbers = map(str, range(1, len(options) + 1))
    return next(
        (each for each, number in zip(options, numbers, strict=True) if number == plain), None
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
    problems = Schema(question.input_schema or {}).problems(edited)
    return [_problem(f"/input{each.path}", each.message) for each in problems]


def _message(question: Question, body: Mapping[str, Any]) -> Outcome:
    problems = _unknown(body, ("text", "resume_payload"))
    text = body.get("text")
    if not isinstance(text, str) or not text.strip():
        problems.append(_problem("/text", "must be text, and not blank"))
    if question.schema is not None and "resume_payload" in body:
        mistakes = Schema(question.schema).problems(body["resume_payload"])
        problems += [_problem(f"/resume_payload{each.path}", each.message) for each in mistakes]
    return _outcome(question.handed_back | dict(body), problems)


def _reply(question: Question, body: Mapping[str, Any]) -> Outcome:
    can_decide = question.form is not None and bool(question.form.get("allowDecide"))
    problems = _unknown(body, (*_FIELDS, "notes", "cancel", *(("decide",) if can_decide else ())))
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
    if given_up and any(name in body for name in _FIELDS):
        problems.append(_problem(f"/{given_up}", "cannot be combined with an answer: remove one"))
    if problems:
        return {}, problems
    if given_up:
        return {given_up: True}, []
    given = [name for name in _FIELDS if name in body]
    if len(given) > 1 or (not given and question.form is None):
        return {}, [_problem("", "must hold exactly one of value, text, answer")]
    field = given[0] if given else "value"
    normal, issue = _answer(question, body.get(field), field)
    if issue:
        return {}, [_problem(f"/{field}", issue)]
    return normal | ({"notes": notes} if notes else {}), []


def _answer(question: Question, answer: Any, field: str) -> tuple[Normal, str]:
    """Return the chosen form of the answer, or its problem."""
    if question.form is not None:
        value, issue = _typed(question, question.form, answer)
        return {"value": value}, issue
    if question.schema is not None:
        return _shaped(Schema(question.schema), answer, is_text=field != "value")
    if question.options:
        return _chosen(question.options, answer, is_text=field != "value")
    if not isinstance(answer, str) or not answer.strip():
        return {}, "answer must be text"
    return {"text": answer}, ""


def _shaped(schema: Schema, answer: Any, *, is_text: bool) -> tuple[Normal, str]:
    problems = schema.problems(answer)
    if problems and is_text and isinstance(answer, str):
        try:
            value = parse_json(answer)
        except (ValueError, RecursionError):
            value = answer
        if not schema.problems(value):
            return {"value": value}, ""
    return {"value": answer}, "; ".join(map(str, problems))


def _chosen(options: tuple[Option, ...], answer: Any, *, is_text: bool) -> tuple[Normal, str]:
    """Return the option; text that names none is an answer in free text."""
    if is_text:
        if not isinstance(answer, str) or not answer.strip():
            known = ", ".join(option.value for option in options)
            return {}, f"answer must be text: one of {known}, or words of your own"
        option = find_option(options, answer)
        return ({"value": option.value} if option else {"text": answer}), ""
    if any(answer == option.value for option in options):
        return {"value": answer}, ""
    return {}, f"must be one of: {', '.join(option.value for option in options)}"


def _typed(question: Question, form: Mapping[str, Any], answer: Any) -> tuple[Any, str]:
    if form["type"] == "confirm":
        return answer, "" if isinstance(answer, bool) else "answer must be true or false"
    if form["type"] == "input":
        is_empty = answer is None or (isinstance(answer, str) and not answer.strip())
        if is_empty and form.get("defaultValue") is not None:
            return form["defaultValue"], ""
        is_blank = question.kind is QuestionKind.TASK and not str(answer).strip()
        return answer, "" if _is_text(answer) and not is_blank else "answer must be text"
    options = [each.value for each in question.options if each.value != OTHER]
    is_open = bool(form.get("allowCustom"))
    if _is_multiple(form):
        is_needed = question.kind is QuestionKind.FORK
        return _several(options, answer, is_open=is_open, is_needed=is_needed)
    return answer, _one(options, answer, _expectation("one of", options), is_open=is_open)


def _one(options: Sequence[str], answer: Any, expected: str, *, is_open: bool) -> str:
    """Return why a value is neither an option nor, where allowed, free text."""
    if answer in options:
        return ""
    if not is_open or not isinstance(answer, str):
        return expected
    is_described = answer.strip() and _plain(answer) != _plain(OTHER) and _is_text(answer)
    return "" if is_described else "describe your answer"


def _several(
    options: Sequence[str], answer: Any, *, is_open: bool, is_needed: bool
) -> tuple[Any, str]:
    expected = _expectation("a list of", options)
    if not isinstance(answer, list) or (is_needed and not answer):
        return None, expected
    if issue := next(
        filter(None, (_one(options, e, expected, is_open=is_open) for e in answer)), ""
    ):
        return None, issue
    own = [each for each in answer if each not in options]
    is_repeated = len({*answer}) < len(answer)
    return answer, expected if is_repeated or len(own) > 1 else ""


def _is_multiple(form: Mapping[str, Any] | None) -> bool:
    return form is not None and bool(form.get("multiSelect"))


def _expectation(form: str, options: Sequence[str]) -> str:
    return f"answer must be {form}: {', '.join(options)}"


def _is_text(answer: Any) -> bool:
    return isinstance(answer, str) and len(answer) <= ANSWER_CHARACTERS


def _plain(text: str) -> str:
    return text.strip().casefold()


def _unknown(body: Mapping[str, Any], known: tuple[str, ...]) -> Problems:
    issue = f"is not known; the known fields are {', '.join(known)}"
    return [_problem(f"/{name}", issue) for name in body if name not in known]


def _problem(field: str, issue: str) -> dict[str, str]:
    return {"field": field, "issue": issue}


def _outcome(normal: Normal, problems: Problems) -> Outcome:
    return ({}, problems) if problems else (normal, [])
