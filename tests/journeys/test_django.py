"""The Django examples of docs/howto/embed.md, in processes of their own: Django is set up once."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli.authoring.init import init

pytestmark = [pytest.mark.programs, pytest.mark.slow("starts a process")]
PAGE = Path(penstock.__file__).parents[1] / "docs/howto/embed.md"
BLOCKS = re.findall(
    r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
ASGI = """
import asyncio
import httpx2
from django.http import HttpResponse
from django.urls import path

urlpatterns.append(path("own", lambda request: HttpResponse("Django.")))


async def main():
    asked, told = asyncio.Queue(), asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
    life = asyncio.create_task(application(scope, asked.get, told.put))
    await asked.put({"type": "lifespan.startup"})
    print((await told.get())["type"])
    transport = httpx2.ASGITransport(application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        body = {"content": "Hello", "stream": True}
        chat = await http.post("/desk/api/agents/assistant/chat", json=body)
        print(chat.status_code, "message_complete" in chat.text)
        document = (await http.get("/desk/openapi.json")).json()
        print(document["servers"])
        print((await http.get("/own")).text)
    await asked.put({"type": "lifespan.shutdown"})
    print((await told.get())["type"])
    await life


asyncio.run(main())
"""
VIEW = """
import django
from django.test import Client

django.setup()
client = Client()
first = client.post("/ask", {"question": "Hello"}).json()
again = client.post("/ask", {"question": "And?", "session": first["session"]}).json()
print(bool(first["answer"]), first["session"] == again["session"])
"""


def run(code: str, folder: Path) -> list[str]:
    """Run a program in a new project; return the lines that it prints."""
    init(folder)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_the_asgi_application_of_django_serves_a_runtime_below_a_path(tmp_path: Path) -> None:
    (code,) = [block for block in BLOCKS if "get_asgi_application" in block]
    assert run(code + ASGI, tmp_path) == [
        "lifespan.startup.complete",
        "200 True",
        "[{'url': '/desk'}]",
        "Django.",
        "lifespan.shutdown.complete",
    ]


def test_a_view_of_django_asks_an_agent(tmp_path: Path) -> None:
    (code,) = [block for block in BLOCKS if "urlpatterns" in block and "open_sync" in block]
    assert run(code + VIEW, tmp_path) == ["True True"]
