"""Examples to copy, shown below the help of the most used commands."""

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "init": ("penstock init trip",),
    "new tool": ("penstock new tool weather",),
    "serve": ("penstock serve --port 8080 --watch",),
    "chat": (
        "penstock chat",
        'penstock chat "What is the weather in Lisbon?" --agent scout',
        "git diff | penstock chat - --json",
    ),
    "check": ("penstock check --strict", "penstock check --github"),
    "types": ("penstock types --check",),
    "run-tool": (
        'penstock run-tool weather --input \'{"city": "Lisbon"}\' --mocks mocks.json',
        "penstock run-tool deploy --answer approve",
    ),
    "flow check": ("penstock flow check dom:apply --dry-run",),
    "flow run": (
        'penstock flow run guide "Three days in Lisbon"',
        "penstock flow run morning --input first=Tokyo --auto --json",
    ),
    "flow graph": ("penstock flow graph guide --svg --output guide.svg",),
    "flow answer": ("penstock flow answer q_1 Short --note 'one page'",),
    "call": (
        "penstock call hello name=Ann",
        "penstock call hello --input @input.json --trace",
    ),
    "debug": ('penstock debug weather --input \'{"city": "Lisbon"}\'',),
    "tools grants": ("penstock tools grants weather --skill trips --origin model",),
    "tasks events": ("penstock tasks events task_1 --follow",),
    "answer": (
        "penstock answer",
        "penstock answer q_1 approve",
        "penstock answer q_1 reject --note 'not on a Friday'",
    ),
    "keys create": ("penstock keys create ci --permission read --permission chat --days 90",),
    "vault set": ('printf %s "$TOKEN" | penstock vault set profile weather_token',),
}
"""By command. A test parses each line with its command."""


def examples_of(command: str) -> str | None:
    """Return the examples of a command as help text; None if it has none."""
    lines = EXAMPLES.get(command)
    return (
        None if lines is None else "\n".join(["\b", "Examples:", *(f"  {each}" for each in lines)])
    )
