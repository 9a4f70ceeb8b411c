"""Writes the declarations of `flo` as the tables of docs/scripts/flo.md."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DECLARATIONS = Path(__file__).parents[1] / "penstock" / "sandbox" / "sdk" / "flo.d.ts"
LATER = "Not available in this version"
_INTERFACE = re.compile(r"^interface (\w+) \{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r"^  (?:/\*\* (.*?) \*/\n  )?(?:readonly )?(\w+)(.*);$", re.MULTILINE)
_NAMESPACE = re.compile(r"^Flo[A-Z]\w+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One member of `flo`, at any depth."""

    name: str
    """With its namespace, such as `state.get`."""
    form: str
    """Behind the name, as it is declared."""
    meaning: str

    @property
    def is_later(self) -> bool:
        """Whether it only rejects, so far."""
        return self.meaning == LATER


def functions() -> Iterator[Function]:
    """Yield every function of `flo`, in the order of their declarations."""
    found = _INTERFACE.findall(DECLARATIONS.read_text(encoding="utf-8"))
    yield from _functions("Flo", "", dict(found))


def flo() -> str:
    """Return a table of each namespace, and the names of what comes later."""
    every = list(functions())
    spaces: dict[str, list[Function]] = {}
    for each in every:
        if not each.is_later:
            spaces.setdefault(each.name.rpartition(".")[0], []).append(each)
    tables = "\n\n".join(_table(space, each) for space, each in spaces.items())
    later = ", ".join(f"`{each.name}`" for each in every if each.is_later)
    return f"{tables}\n\nNot in this version, and refused with `NOT_AVAILABLE`: {later}."


def types() -> str:
    """Return the types that the functions of this version are declared with."""
    text = DECLARATIONS.read_text(encoding="utf-8")
    named = text.partition("\n\n")[2].partition("interface FloChild {")[0]
    return f"```ts\n{named.strip()}\n```"


def _functions(interface: str, prefix: str, bodies: dict[str, str]) -> Iterator[Function]:
    for meaning, name, form in _MEMBER.findall(bodies[interface]):
        inner = form.removeprefix(": ")
        if _NAMESPACE.match(inner) and inner in bodies:
            yield from _functions(inner, f"{prefix}{name}.", bodies)
        else:
            yield Function(name=prefix + name, form=form, meaning=meaning)


def _table(space: str, found: list[Function]) -> str:
    title = f"`flo.{space}`" if space else "`flo`"
    rows = "\n".join(f"| `{each.name}` | {each.meaning} | {_code(each.form)} |" for each in found)
    return f"### {title}\n\n| function | does | is declared as |\n| --- | --- | --- |\n{rows}"


def _code(form: str) -> str:
    return f"`{_plain(form)}`".replace("|", "\\|")


def _plain(form: str) -> str:
    """Return a form without the comments in it."""
    return re.sub(r"/\*\* .*? \*/ ", "", form).removeprefix(": ")
