"""Penstock with many parked tasks and many schedules: start-up, idle CPU, waking, bursts."""

import asyncio
import statistics
import time
from contextlib import AbstractAsyncContextManager
from functools import partial

from sqlalchemy import Connection, func, select, text

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.schedules.definition import NewSchedule
from penstock.core.messages import UserMessage
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.program.opening import open as open_runtime
from penstock.store.database import Database, open_database
from penstock.store.tables import schedules, tasks
from penstock.tools.python.function import tool

DISTRIBUTION = "penstock"
REAL = 20
"""Parked tasks that are woken; the others are copies of their rows."""
_COPIES = {
    "logs": ("log_id",),
    "sessions": ("session_id",),
    "events": ("log_id", "task_id"),
    "tasks": ("task_id", "log_id"),
    "questions": ("question_id", "log_id", "task_id"),
}
"""The columns with ids in the tables of a conversation."""
PAY = "Pay."
PAID: list[float] = []
"""When the tool ran."""
Waiting = tuple[str, str]
"""A question and its task."""


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    PAID.append(time.perf_counter())
    return "paid"


def opened(directory: str) -> AbstractAsyncContextManager[Runtime]:
    """Open a project whose agent asks for an approval when it is to pay, and else answers."""
    agent = Agent("bench", model=ScriptedModel(_reply), tools=[pay])
    return open_runtime(directory, agents=[agent])


def _reply(request: ModelRequest) -> ScriptedReply:
    newest = request.messages[-1]
    is_asked = isinstance(newest, UserMessage) and newest.content == PAY
    return call("pay") if is_asked else say("Done.")


async def park(directory: str, count: int) -> list[Waiting]:
    """Park so many tasks: real ones, which are returned, and copies of one of them."""
    async with opened(directory) as runtime:
        talks = [runtime.chat(PAY, agent="bench") for _ in range(REAL)]
        replies = await asyncio.gather(*talks)
    database = await _database(directory)
    for first in range(0, count - REAL, 2000):
        numbers = range(first, min(first + 2000, count - REAL))
        await database.write(partial(_copy, numbers))
    await database.close()
    return [(each.questions[0].id, each.task_id) for each in replies]


def _copy(numbers: range, connection: Connection) -> None:
    """Copy the rows of the first conversation under other ids."""
    found = connection.execute(text("SELECT min(log_id) FROM logs")).scalar()
    for table, ids in _COPIES.items():
        names = [row[1] for row in connection.execute(text(f"PRAGMA table_info({table})"))]
        chosen = ", ".join(f"{each} || :mark" if each in ids else each for each in names)
        where = f"WHERE {'session_id' if table == 'sessions' else 'log_id'} = :log"
        columns = ", ".join(names)
        copy = f"INSERT INTO {table} ({columns}) SELECT {chosen} FROM {table} {where}"  # noqa: S608
        rows = [{"mark": f"_{number}", "log": found} for number in numbers]
        connection.execute(text(copy), rows)


async def start_seconds(directory: str) -> float:
    """Return how long it takes to open the project."""
    started = time.perf_counter()
    async with opened(directory):
        return time.perf_counter() - started


async def idle_pct(directory: str, seconds: float) -> float:
    """Return how much of one core an open project uses while nothing happens, in percent."""
    async with opened(directory):
        await asyncio.sleep(0.5)
        started, before = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        return 100 * (time.process_time() - before) / (time.perf_counter() - started)


async def wake_ms(directory: str, waiting: list[Waiting]) -> float:
    """Answer questions one by one; return the median until the approved tool runs."""
    taken: list[float] = []
    async with opened(directory) as runtime:
        for question, task_id in waiting:
            started = time.perf_counter()
            await runtime.requests.answer(question, {"decision": "approve"})
            reply = await runtime.requests.wait(task_id)
            assert reply is not None
            assert reply.content == "Done."
            taken.append(PAID[-1] - started)
    return 1e3 * statistics.median(taken)


async def schedule(directory: str, count: int, *, due_in: float | None) -> float:
    """Store so many schedules, due together or once a day; return when they are due."""
    async with opened(directory) as runtime:
        new = NewSchedule(name="Bench", cron="0 0 * * *", agent="bench", input={"content": "Hello"})
        made = await runtime.schedules.create(new)
    database, due = await _database(directory), time.time() + (due_in or 12 * 3600)
    await database.write(lambda connection: _spread(connection, made.schedule_id, count, due))
    await database.close()
    return due


def _spread(connection: Connection, schedule_id: str, count: int, due: float) -> None:
    row = connection.execute(select(schedules).where(schedules.c.schedule_id == schedule_id))
    values = dict(row.mappings().one()) | {"next_run": int(due * 1000)}
    connection.execute(schedules.delete())
    rows = [values | {"schedule_id": f"sched_{number}"} for number in range(count)]
    connection.execute(schedules.insert(), rows)


async def burst(directory: str, due: float, count: int) -> tuple[float, float]:
    """Return how long after their due time the last of these schedules has started its task.

    The second number is the CPU time of this process until then.
    """
    started = select(func.count(), func.max(tasks.c.started_at)).where(
        tasks.c.started_at.is_not(None), tasks.c.schedule_id.is_not(None)
    )
    database = await _database(directory)
    async with opened(directory):
        await asyncio.sleep(due - time.time())
        before = time.process_time()
        while True:
            found, newest = await database.read(lambda each: each.execute(started).one())
            if found >= count:
                break
            await asyncio.sleep(0.1)
        spent = time.process_time() - before
    await database.close()
    return float(newest) / 1000 - due, spent


async def _database(directory: str) -> Database:
    return await open_database(f"sqlite:///{directory}/.penstock/penstock.db")
