"""Whether an answer fits its question, and the one spelling in which the log keeps it."""

import json
from collections.abc import Mapping
from typing import Any

from penstock.core.question import Option, Question, QuestionKind
from penstock.core.schema import Schema, json_problems

OTHER = "Other (describe)"
"""The last option of a question that also takes words of one's own."""
ANSWER_CHARACTERS = 10_000

Normal = dict[str, Any]
Problems = list[dict[str, str]]
Outcome = tuple[Normal, Problems]

_YES_NO = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
_SAID = ("value", "text", "answer")


def check_answer(question: Question, body: Mapping[str, Any], depth: int) -> Outcome:
    """Return the answer as the log keeps it, and what is wrong with it; one of them is empty.

    `depth` is how deep its values may be nested.
    """
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


def find_option(options: tuple[Option, ...], text: str) -> Option | None:
    """Return the option that a person means by its value, label, an alias or its number."""
    said = _plain(text)
    for option in options:
        if said in map(_plain, (option.value, option.label, *option.aliases)):
            return option
    numbers = map(str, range(1, len(options) + 1))
    return next(
        (each for each, number in zip(options, numbers, strict=True) if number == said), None
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
        return [_problem("/input", "goes with the decision approve alone")]
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
    given_up = next((name for name in ("cancel", "decide") if body.get(name) is True), None)
    if notes and given_up:
        problems.append(_problem("/notes", f"go with an answer, not with {given_up}"))
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
    """Return what the person said, or why it does not do."""
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
            value = json.loads(said)
        except (ValueError, RecursionError):
            value = said
        if not schema.problems(value):
            return {"value": value}, ""
    return {"value": said}, "; ".join(map(str, found))


def _chosen(options: tuple[Option, ...], said: Any, *, is_text: bool) -> tuple[Normal, str]:
    """Return the option; words that name none are no mistake but another answer."""
    if is_text:
        if not isinstance(said, str) or not said.strip():
            return {}, "answer must be text"
        option = find_option(options, said)
        return ({"value": option.value} if option else {"text": said}), ""
    if any(said == option.value for option in options):
        return {"value": said}, ""
    return {}, f"must be one of: {', '.join(option.value for option in options)}"


def _typed(question: Question, form: Mapping[str, Any], said: Any) -> tuple[Any, str]:
    if form["type"] == "confirm":
        value = _YES_NO.get(_plain(said)) if isinstance(said, str) else said
        return value, "" if isinstance(value, bool) else "answer must be true or false"
    if form["type"] == "input":
        is_empty = said is None or (isinstance(said, str) and not said.strip())
        if is_empty and form.get("defaultValue") is not None:
            return form["defaultValue"], ""
        is_blank = question.kind is QuestionKind.TASK and not str(said).strip()
        return said, "" if _is_text(said) and not is_blank else "answer must be text"
    options = tuple(each for each in question.options if each.value != OTHER)
    is_open = bool(form.get("allowCustom"))
    if form.get("multiSelect"):
        is_needed = question.kind is QuestionKind.FORK
        return _several(options, said, is_open=is_open, is_needed=is_needed)
    value, issue = _one(options, said, is_open=is_open)
    return value, issue or ("" if value is not None else _wanted("one of", options))


def _one(options: tuple[Option, ...], said: Any, *, is_open: bool) -> tuple[str | None, str]:
    if not isinstance(said, str):
        return None, ""
    if option := find_option(options, said):
        return option.value, ""
    if not is_open:
        return None, ""
    if not said.strip() or _plain(said) == _plain(OTHER) or len(said) > ANSWER_CHARACTERS:
        return None, "describe your answer"
    return said, ""


def _several(
    options: tuple[Option, ...], said: Any, *, is_open: bool, is_needed: bool
) -> tuple[Any, str]:
    wanted = _wanted("a list of", options)
    if isinstance(said, str):
        said = [each.strip() for each in said.split(",") if each.strip()]
    if not isinstance(said, list):
        return None, wanted
    chosen: list[str] = []
    for each in said:
        value, issue = _one(options, each, is_open=is_open)
        if value is None or value in chosen:
            return None, issue or wanted
        chosen.append(value)
    own = [each for each in chosen if all(each != option.value for option in options)]
    return chosen, wanted if len(own) > 1 or (is_needed and not chosen) else ""


def _wanted(form: str, options: tuple[Option, ...]) -> str:
    return f"answer must be {form}: {', '.join(option.value for option in options)}"


def _is_text(said: Any) -> bool:
    return isinstance(said, str) and len(said) <= ANSWER_CHARACTERS


def _plain(text: str) -> str:
    return text.strip().casefold()


def _unknown(body: Mapping[str, Any], known: tuple[str, ...]) -> Problems:
    wanted = f"is not known here; an answer holds {', '.join(known)}"
    return [_problem(f"/{name}", wanted) for name in body if name not in known]


def _problem(field: str, issue: str) -> dict[str, str]:
    return {"field": field, "issue": issue}


def _outcome(normal: Normal, problems: Problems) -> Outcome:
    return ({}, problems) if problems else (normal, [])
