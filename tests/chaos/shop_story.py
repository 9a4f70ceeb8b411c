"""A story of time, told by servers that die: a schedule, children, a timer, webhooks and an undo.

A schedule sends a message. The task has two children buy something, one after the other, buys two
things itself, and asks a person, who does not answer, so that a timer ends the wait. Webhooks
report the question and the ends. Then the task is undone. `check` says what must hold in the end.
"""

import json
import os
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx2
import psycopg

from penstock import NewSchedule
from tests.chaos.harness import CLOCK, PATIENCE, Server, effects

ENDS = {"succeeded", "failed", "cancelled"}
ITEMS = {"pot", "pan", "tea", "cup"}
"""What the task buys itself, and what its children do."""
SCHEDULE = NewSchedule(
    name="Restock",
    delay_seconds=1,
    input={"content": "Restock."},
    suspension_seconds=1,
    resume_prompt="Nobody answered.",
)


class Receiver(ThreadingHTTPServer):
    """Takes the deliveries of all stories; the path of each is its name."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.news = threading.Condition()
        self.heard: dict[str, list[dict[str, Any]]] = {}
        self.victims: dict[str, tuple[int, int]] = {}
        """By story: the delivery that is not answered, and the process that dies of it."""
        self._thread = threading.Thread(target=self.serve_forever, args=[0.05])

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.shutdown()
        self._thread.join()
        self.server_close()

    def take(self, name: str, body: dict[str, Any]) -> bool:
        """Note a delivery. Return whether it is answered; if not, its sender is dead."""
        with self.news:
            told = self.heard.setdefault(name, [])
            told.append(body)
            number, pid = self.victims.get(name, (0, 0))
            if dies := len(told) == number:
                os.kill(pid, signal.SIGKILL)
            self.news.notify_all()
        return not dies


class Taking(BaseHTTPRequestHandler):
    """One request of a webhook."""

    server: Receiver

    def do_POST(self) -> None:
        """Take a delivery."""
        size = int(self.headers["content-length"])
        body = self.rfile.read(size)
        is_whole = len(body) == size  # else the sender died meanwhile
        if is_whole and self.server.take(self.path.strip("/"), json.loads(body)):
            self.send_response(204)
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Story:
    """One project in which the schedule is due, and a client who has its task undone."""

    def __init__(
        self, directory: Path, receiver: Receiver, *, url: str = "", slots: int = 8
    ) -> None:
        self.directory = directory
        self.url = url
        """The address of a Postgres; empty for a file of the project."""
        self.receiver = receiver
        self.undo: dict[str, Any] = {}
        here = f"127.0.0.1:{receiver.server_port}"
        (directory / "penstock.toml").write_text(f"""
            database_url = "{url}"
            limits.activations = {slots}
            [egress]
            allow = ["http://{here}"]
            allow_private = ["{here}"]
            [[webhooks]]
            url = "http://{here}/{directory.name}"
            events = ["task.ended", "question.asked"]
            secret = "hook"
        """)

    def go_on(self, server: Server) -> None:
        """Continue until all has happened, or until the server has died."""
        ends = CLOCK.monotonic() + PATIENCE
        while not (server.is_gone or self.is_over):
            assert CLOCK.monotonic() < ends, f"stands still: {self.tasks()} {self.undo}"
            with self.receiver.news:
                self.receiver.news.wait(0.05)
            ended = [each for each in self.tasks() if each.is_root and each.status in ENDS]
            if ended and not self.is_undone:
                url = f"/tasks/{ended[0].task_id}/undo"
                with suppress(httpx2.TransportError):
                    answer = server.client.post(url, json=self._wanted())
                    assert answer.status_code in {200, 202}, answer.text
                    self.undo = answer.json()

    def _wanted(self) -> dict[str, Any]:
        """Return the next request for an undo: of all, or of a call after a look at what it did."""
        for each in self.undo.get("calls", []):
            if each["status"] == "unclear" and not self._was_given_back(each):
                return {"callId": each["id"]}
        return {}

    def _was_given_back(self, call: dict[str, Any]) -> bool:
        return f"give_back {call['input']['item']}" in effects(self.directory)

    @property
    def is_undone(self) -> bool:
        """Whether every call is undone that can be."""
        if self.undo.get("status") not in {"succeeded", "failed", "nothing"}:
            return False
        unclear = [each for each in self.undo["calls"] if each["status"] == "unclear"]
        is_ready = any(each["status"] == "ready" for each in self.undo["calls"])
        return not is_ready and all(map(self._was_given_back, unclear))

    @property
    def is_over(self) -> bool:
        """Whether the task is undone, and every delivery has arrived."""
        waiting = "SELECT 1 FROM deliveries WHERE status <> 'delivered'"
        return self.is_undone and not self._rows(waiting)

    def tasks(self) -> list["Row"]:
        """Return the rows of all tasks."""
        query = "SELECT task_id, status, schedule_id NOTNULL, parent_id NOTNULL FROM tasks"
        return [Row(*each) for each in self._rows(query)]

    def _rows(self, query: str) -> list[Any]:
        if self.url:
            with psycopg.connect(self.url, autocommit=True) as postgres:
                return postgres.execute(query.encode()).fetchall()
        with closing(sqlite3.connect(self.directory / ".penstock" / "penstock.db")) as database:
            return database.execute(query).fetchall()


class Row(NamedTuple):
    """A row of a task."""

    task_id: str
    status: str
    is_root: int
    is_child: int


def check(story: Story, server: Server) -> str:
    """Nothing is lost, and nothing happened twice."""
    tasks = [each for each in story.tasks() if not each.task_id.startswith("undo_")]
    assert [each.status for each in tasks] == ["succeeded"] * 3
    assert [sum(each.is_root for each in tasks), sum(each.is_child for each in tasks)] == [1, 2]
    told = {each.task_id: events(server, each.task_id) for each in story.tasks()}
    check_webhooks(story, told)
    for each in told.values():
        paths = Counter(event["path"] for event in each if event["kind"] == "call_settled")
        assert set(paths.values()) <= {1}
        assert sum(event["kind"] == "task_ended" for event in each) == 1
    ended = [e for each in told.values() for e in each if e["kind"] == "call_settled"]
    bought, returned = (check_effects(story, tool, ended) for tool in ("buy", "give_back"))
    assert bought <= ITEMS
    assert returned <= bought
    cut = {each["body"]["tool_id"] for each in ended if code_of(each) == "INTERRUPTED"}
    return f"`INTERRUPTED`: {', '.join(sorted(cut))}" if cut else "each once"


def check_effects(story: Story, tool: str, ended: list[dict[str, Any]]) -> set[str]:
    """Return what a tool did: each call once, or it was reported as interrupted."""
    lines = [each.split() for each in effects(story.directory)]
    did = Counter(item for name, item in lines if name == tool)
    assert set(did.values()) <= {1}
    codes = Counter(code_of(each) for each in ended if each["body"].get("tool_id") == tool)
    assert set(codes) <= {"", "INTERRUPTED"}
    assert codes[""] <= did.total() <= codes.total()
    return set(did)


def check_webhooks(story: Story, told: dict[str, list[dict[str, Any]]]) -> None:
    """Every event arrived, under one id, in the order of its task."""
    kinds = {"question_asked": "question.asked", "task_ended": "task.ended"}
    arrived: dict[str, list[tuple[str, str]]] = {task: [] for task in told}
    for body in story.receiver.heard[story.directory.name]:
        arrived[body["task"]["id"]].append((body["type"], body["id"]))
    for task, happened in told.items():
        once = [sent for sent, _ in groupby(arrived[task])]
        assert len(set(once)) == len(once), "sent again after the next one"
        expected = [kinds[each["kind"]] for each in happened if each["kind"] in kinds]
        assert [kind for kind, _ in once] == expected


def events(server: Server, task_id: str) -> list[dict[str, Any]]:
    """Return every event of a task."""
    answer = server.client.get(f"/tasks/{task_id}/events", params={"limit": 200})
    listed: list[dict[str, Any]] = answer.json()["events"]
    return listed


def code_of(event: dict[str, Any]) -> str:
    """Return the code of the error of a call that ended; empty if it has none."""
    error = event["body"].get("envelope", {}).get("error") or {}
    return str(error.get("code", ""))
