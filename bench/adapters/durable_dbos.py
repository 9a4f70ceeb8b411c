"""DBOS: one step per step of one workflow, on its own SQLite database with its own settings."""

import logging

from dbos import DBOS

logging.disable(logging.CRITICAL)
DISTRIBUTION = "dbos"
MODES = ["step"]
UNIT = "one DBOS.step in one DBOS.workflow"


@DBOS.step()
async def step(i):
    return i


@DBOS.workflow()
async def workflow(steps):
    for i in range(steps):
        await step(i)
    return steps


async def begin(mode, directory):
    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{directory}/dbos.db"})
    DBOS.launch()


async def run(context, steps):
    assert await workflow(steps) == steps


async def end(context):
    DBOS.destroy()
