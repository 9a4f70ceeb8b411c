"""Chooses the tools for a message: those that it names, or the one whose description fits best.

A tool that is not named is called only if its score is high enough and no other tool has the same
score: a wrong call is worse than a question. Words count by how rare they are among the tools, and
words of a name count twice.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from penstock.models.model import ToolDefinition

NAME_WEIGHT = 2.0
MIN_SCORE = 2.0
"""The score at which an unnamed tool is called: a word of its name, or two of its description."""
MIN_STEM_LENGTH = 3

_SMALL_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about all an and any are as at be can could do does for from get give has have hello
        hey hi how i if in into is it its list make me more my new no not now of on one or our
        out please return returned returns run set show so some tell text thank thanks that the
        their them then there these this those to try tool up use used was we what when where
        which who will with would yes you your""",
    )
)
_SAME = {"find": "search", "look": "search", "seek": "search", "open": "browse", "visit": "browse"}
_SAME |= {"plus": "add", "sum": "add", "times": "multiply", "minus": "subtract"}
_WHICH = re.compile(
    r"\bwhat (?:can|could|do|else can) (?:you|i)\b|\b(?:what|which) tools\b|\byour tools\b|"
    r"\blist (?:\w+ ){0,3}tools?\b|\bcapabilit|\bhow (?:do|does) (?:you|this|it) work|"
    r"\bwhat (?:is this|are you)\b|(?:^|can you )help(?: me)?\s*[?.!]*$",
    re.IGNORECASE,
)
_ANY = re.compile(
    r"\b(?:try|use|call|run|show)(?: me)? (?:\w+ ){0,4}tools?\b|\bdemo\b", re.IGNORECASE
)
_SIDE_EFFECTS = re.compile(
    r"^(?:apply|clear|close|delete|deploy|disable|drop|kill|post|publish|purge|push|remove|reset|"
    r"restart|send|shut|stop|terminate|wipe|write)"
)
_TAKES_TIME = re.compile(r"\bask|\bperson\b|slow|\bwait|\blong\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")
_URL_WORDS = frozenset(("url", "web", "page", "http"))
_MAIL_WORDS = frozenset(("email", "mail"))


class ToolMention(Struct, frozen=True):
    """A tool, and the part of the message about it."""

    tool: ToolDefinition
    text: str
    """The text from its name to the next tool's name; the whole message if it is not named."""
    before: str = ""
    """The text before the first name."""
    named: bool = True


def mentioned(text: str, tools: Sequence[ToolDefinition]) -> list[ToolMention]:
    """Return the tools that the message names, in its order, each with its part of the message."""
    hits: list[tuple[int, int, ToolDefinition]] = []
    for tool in tools:
        name = re.sub(r"(?:\\?[_\-. ])+", r"[_\\-. ]", re.escape(tool.name))
        word = rf"(?<![\w.-]){name}(?![\w-])"
        matches = re.finditer(word, text, re.IGNORECASE)
        hits.extend((match.start(), -match.end(), tool) for match in matches)
    # Of names that begin at one place the longest comes first: `search` begins `search_web`.
    hits.sort(key=lambda hit: hit[:2])
    apart: list[tuple[int, int, ToolDefinition]] = []
    for start, end, tool in hits:
        if not apart or start >= apart[-1][1]:
            apart.append((start, -end, tool))
    ends = [start for start, _, _ in apart[1:]] + [len(text)]
    before = text[: apart[0][0]] if apart else ""
    return [
        ToolMention(tool, text[end : ends[index]], before if index == 0 else "")
        for index, (_, end, tool) in enumerate(apart)
    ]


def is_spelled(name: str, text: str) -> bool:
    """Whether a text contains this name as a word, in any case."""
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE))


def has_side_effects(tool: ToolDefinition) -> bool:
    """Whether the name of a tool suggests that it sends, deletes or changes something."""
    return bool(_SIDE_EFFECTS.match(tool.name.lower()))


def best_match(text: str, tools: Sequence[ToolDefinition]) -> ToolMention | None:
    """Return the tool that shares most words with the message, unless the score is low or a tie."""
    asked = _words(text)
    if "://" in text:
        asked |= _URL_WORDS
    if "@" in text:
        asked |= _MAIL_WORDS
    names = [_words(tool.name) for tool in tools]
    descriptions = [_words(tool.description) for tool in tools]
    often = Counter(word for words in [*names, *descriptions] for word in words)
    scores = [
        sum(NAME_WEIGHT / max(1, sum(word in name for name in names)) for word in asked & words)
        + sum(1 / often[word] for word in asked & (descriptions[index] - words))
        for index, words in enumerate(names)
    ]
    best = max(scores, default=0.0)
    if best < MIN_SCORE or scores.count(best) > 1:
        return None
    return ToolMention(tools[scores.index(best)], text, named=False)


def asks_for_list(text: str) -> bool:
    """Whether the message asks which tools there are."""
    return bool(_WHICH.search(text))


def asks_for_any(text: str) -> bool:
    """Whether the message asks to try any tool."""
    return bool(_ANY.search(text))


def harmless_without_input(tools: Iterable[ToolDefinition]) -> ToolDefinition | None:
    """Return the tool with the shortest description that needs no input and has no side effects.

    Tools of the project come before built-in ones.
    """
    easy = [
        tool for tool in tools if not tool.parameters.get("required") and not has_side_effects(tool)
    ]
    quick = [tool for tool in easy if not _TAKES_TIME.search(f"{tool.name} {tool.description}")]
    return min(
        quick or easy, key=lambda tool: (tool.is_builtin, len(tool.description)), default=None
    )


def own_first(tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """Return the tools of the project, then the built-in ones."""
    return sorted(tools, key=lambda tool: tool.is_builtin)


def stem(word: str) -> str:
    """Return the word without a common ending."""
    for ending in ("ing", "ies", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= MIN_STEM_LENGTH:
            return word[: -len(ending)]
    return word


def _words(text: str) -> set[str]:
    words = [_SAME.get(word, word) for word in _WORD.findall(text.lower())]
    return {stem(word) for word in words if word not in _SMALL_WORDS}
