"""A project with agents and flows, served to a client in this process."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from penstock.app.plugins.api import Plugin
from penstock.models.scripted import ScriptedModel
from penstock.program.opening import open as open_project
from penstock.server.application import create_application
from tests.kit.flows import HEAD, by_task, finish
from tests.kit.server import HERE, InMemoryServer

AGENT = "---\nname: {name}\ndescription: Works.\ntools:\n---\nYou work.\n"
AGENTS = ("scout", "writer", "judge")
LOOK = HEAD + 'steps:\n  - {id: look, agent: scout, task: "look"}\n'
ASKS = (
    HEAD
    + """\
steps:
  - {id: pick, question: "Go on?", branches: {Go: look, Stop: tell}}
  - {id: look, agent: scout, task: "look", end: true}
  - {id: tell, agent: writer, task: "tell"}
"""
)
FLOWS = {"look.yaml": LOOK, "dom/asks.yaml": ASKS}


def laid(root: Path, flows: Mapping[str, str] = FLOWS) -> Path:
    """Write agents and flows into a project's folder."""
    files = {f"agents/{each}.md": AGENT.format(name=each) for each in AGENTS}
    files |= {f"flows/{name}": text for name, text in flows.items()}
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


@asynccontextmanager
async def flow_server(
    root: Path,
    answers: Mapping[str, Any] | None = None,
    *,
    plugins: Sequence[Plugin] = (),
    **more: str,
) -> AsyncIterator[InMemoryServer]:
    """Serve a project whose agents reply according to their tasks."""
    model = ScriptedModel(by_task(answers or {"look": finish("seen"), "tell": finish("told")}))
    flows = {f"{name}.yaml": text for name, text in more.items()} or FLOWS
    settings = {"models": {"default": model.card.model_id}, "synchronous": "NORMAL"}
    async with open_project(
        laid(root, flows), models=[model], settings=settings, plugins=plugins
    ) as runtime:
        app = create_application(runtime)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            yield InMemoryServer(app, runtime, client)
