"""Creates a project that runs."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal.output import pasted, say
from penstock.core.errors import ConfigError, NameTaken

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the new project.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]

FILES = {
    "penstock.toml": """\
# Settings of this project; every key is in docs/settings.md.
# Variables win over this file: PENSTOCK_SERVER__PORT=8080.

[models]
default = "offline"  # a stand-in that calls tools by simple rules, without a key

# With OPENAI_API_KEY in the environment: default = "openai:gpt-5-mini"
# Other providers and their variables are in docs/howto/model.md.

# [models.local]                   # a name of your own
# provider = "openai"              # or any server that speaks its wire
# model = "qwen3"
# base_url = "http://127.0.0.1:11434/v1"
# api_key_env = "MY_KEY"           # the variable that holds the key, if the server requires one

# [tools]
# builtin = ["files", "sheets"]    # more built-in tools for chats; docs/built-in-tools.md

# In a chat, the tools `write`, `edit` and `bash` ask a person first. To let one run unasked:
# [[rules]]
# tool = "write"
# action = "allow"
""",
    "agents/assistant.md": """\
---
name: assistant
description: Answers questions, and uses the project's tools.
---

You are a helpful assistant. Use the tools you have when they help.
""",
    "tools/hello.py": '''\
"""Tools of this project. They run in penstock's own process, with all its rights."""

from penstock import tool


@tool(effect="none", direct_call=True)
def hello(name: str) -> dict[str, str]:
    """Greet a person by name.

    Args:
        name: The name of the person.
    """
    return {"greeting": f"Hello, {name}!"}
''',
    ".gitignore": ".penstock/\n__pycache__/\n",
}

NEXT = """\
  penstock call hello name=Ann
  penstock chat "Say hello to Ann"
  penstock serve"""


def init(folder: Folder = Path(), *, force: Force = False) -> None:
    """Create a project that runs: an agent, a tool, and settings."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: name a folder, such as `penstock init demo`.")
    existing = [name for name in FILES if (folder / name).exists()]
    if existing and not force:
        raise NameTaken(
            f"{', '.join(existing)} would be overwritten, so nothing was written. "
            "Choose another folder, or add --force."
        )
    try:
        _write(folder)
    except OSError as error:
        path = error.filename or folder
        raise ConfigError(
            f"Cannot create a project in {folder}: {path}: {error.strerror or error}. "
            "Choose a folder that you can create and write to: penstock init FOLDER"
        ) from None
    say("\nIts tools/*.py run in penstock's own process, with all its rights.\n\nTry:")
    if folder != Path():
        say(f"  {pasted('cd', str(folder))}")
    say(NEXT)


def _write(folder: Path) -> None:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        say(f"  {path}")
