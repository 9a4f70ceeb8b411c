"""Flow runs over HTTP: started, read, followed, aborted."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock import Hooks, Refuse
from penstock.core.ids import TaskId
from penstock.core.json_values.schema import Schema
from penstock.models.scripted import fail
from penstock.server.flow_schemas import FLOWS
from penstock.server.openapi import document
from penstock.server.schemas import COMPONENTS
from tests.kit.flow_server import LOOK, flow_server
from tests.kit.flows import HEAD, finish
from tests.kit.server import InMemoryServer, frames, types

pytestmark = pytest.mark.slow("opens a store for each test")
LOOKS = "/api/flows/look/runs"
PICKS = "/api/flows/dom:asks/runs"
NEEDY = LOOK.replace("steps:", "inputs: {n: {type: number, required: true}}\nsteps:")
EAGER = LOOK.replace("steps:", "task_required: true\nsteps:")
BROKEN = LOOK.replace("scout", "scuot")
FAILS = HEAD + "steps:\n  - {id: look, agent: scout, task: fails}\n"


def fits(name: str, value: Any) -> bool:
    """Whether a value matches its schema in the document."""
    whole = {"$ref": f"#/$defs/{name}", "$defs": COMPONENTS | FLOWS}
    text = json.dumps(whole).replace("#/components/schemas/", "#/$defs/")
    return Schema(json.loads(text)).problems(value) == []


async def started(server: InMemoryServer, url: str = PICKS) -> dict[str, Any]:
    """Start a run, and wait until it asks or has ended."""
    body: dict[str, Any] = (await server.client.post(f"{url}?wait=60", json={"task": "t"})).json()
    return body


async def test_a_run_is_started_and_its_result_awaited(tmp_path: Path) -> None:
    """202 `{runId, taskId, status}`; `?wait=SECONDS`: 200 FlowResult when it ended."""
    async with flow_server(tmp_path) as server:
        at_once = await server.client.post(LOOKS)
        assert (at_once.status_code, fits("RunBegun", at_once.json())) == (202, True)
        waited = await server.client.post(
            f"{LOOKS}?wait=60", json={"task": "t", "autonomous": True}
        )
        result = waited.json()
        assert (waited.status_code, result["status"], result["task"]) == (200, "success", "t")
        assert result["lastResult"]["summary"] == "seen"
        assert fits("FlowResult", result)
        await server.runtime.requests.wait(at_once.json()["taskId"])


async def test_starting_a_run_that_waits_returns_its_questions(tmp_path: Path) -> None:
    """Else 202 with `questions`; the answer wakes the run."""
    async with flow_server(tmp_path) as server:
        waiting = await started(server)
        assert (waiting["status"], fits("RunBegun", waiting)) == ("suspended", True)
        (question,) = waiting["questions"]
        run = (await server.client.get(f"{PICKS}/{waiting['runId']}")).json()
        assert [each["state"] for each in run["steps"]] == ["waiting", "pending", "pending"]
        assert (run["questions"][0]["id"], fits("FlowRun", run)) == (question["id"], True)
        answer = {"value": "Stop", "notes": "enough"}
        await server.client.post(f"/api/questions/{question['id']}/answer", json=answer)
        await server.runtime.requests.wait(waiting["taskId"])
        run = (await server.client.get(f"{PICKS}/{waiting['runId']}")).json()
    assert [(each["id"], each["state"], each["visits"]) for each in run["steps"]] == [
        ("pick", "complete", 1),
        ("look", "skipped", 0),
        ("tell", "complete", 1),
    ]
    assert run["result"]["forks"] == {"pick": {"answer": "Stop", "notes": "enough"}}
    assert (run["status"], run["stepCount"], run["questions"]) == ("success", 2, [])
    assert fits("FlowRun", run)


@pytest.mark.parametrize(
    ("flow", "body", "code", "details"),
    [
        (NEEDY, {}, "VALIDATION_ERROR", {"field": "/inputs/n"}),
        (NEEDY, {"inputs": {"n": "x"}}, "VALIDATION_ERROR", {"field": "/inputs/n"}),
        (EAGER, {}, "TASK_REQUIRED", None),
        (EAGER, {"task": "  "}, "TASK_REQUIRED", None),
        (BROKEN, {}, "FLOW_INVALID", None),
    ],
)
async def test_a_rejected_run_is_stored(
    tmp_path: Path, flow: str, body: dict[str, Any], code: str, details: dict[str, str] | None
) -> None:
    """Rejected: 422 `FLOW_INVALID`, `TASK_REQUIRED`, `VALIDATION_ERROR` (inputs), with `runId`."""
    async with flow_server(tmp_path, look=flow) as server:
        response = await server.client.post(LOOKS, json=body)
        refused = response.json()
        assert (response.status_code, refused["error"]["code"]) == (422, code)
        assert fits("RunRejected", refused)
        if details is not None:
            assert refused["error"]["details"][0]["field"] == details["field"]
        run = (await server.client.get(f"{LOOKS}/{refused['runId']}")).json()
        assert (run["status"], run["result"]["reason"]) == ("rejected", refused["error"]["message"])
        assert (run["steps"], fits("FlowRun", run)) == ([], True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"taks": "x"}, "/taks"),
        ({"task": 5}, "/task"),
        ({"inputs": []}, "/inputs"),
        ({"maxConcurrent": 0}, "/maxConcurrent"),
        ({"maxConcurrent": 65}, "/maxConcurrent"),
        ({"autonomous": "yes"}, "/autonomous"),
    ],
)
async def test_an_unreadable_body_starts_no_run(
    tmp_path: Path, body: dict[str, Any], field: str
) -> None:
    async with flow_server(tmp_path) as server:
        response = await server.client.post(LOOKS, json=body)
        assert (response.status_code, "runId" in response.json()) == (422, False)
        assert response.json()["error"]["details"][0]["field"] == field
        assert (await server.client.get(LOOKS)).json()["runs"] == []
        assert (await server.client.post(f"{LOOKS}?wait=301")).status_code == 400


async def test_a_repeated_request_returns_the_same_run(tmp_path: Path) -> None:
    """Header `Idempotency-Key?`; another body: 409 `IDEMPOTENCY_CONFLICT`."""
    headers = {"idempotency-key": "once"}
    async with flow_server(tmp_path) as server:
        runs = [
            (await server.client.post(f"{LOOKS}?wait=60", json={}, headers=headers)).json()
            for _ in range(2)
        ]
        other = await server.client.post(LOOKS, json={"task": "x"}, headers=headers)
    assert runs[0]["runId"] == runs[1]["runId"]
    assert (other.status_code, other.json()["error"]["code"]) == (409, "IDEMPOTENCY_CONFLICT")


async def test_runs_are_listed_newest_first_and_by_status(tmp_path: Path) -> None:
    """`{runs: [{runId, status, task, startedAt, endedAt?, stepCount}], meta}`."""
    answers = {"look": finish("seen"), "fails": fail(400)}
    async with flow_server(tmp_path, answers, look=LOOK, eager=EAGER, fails=FAILS) as server:
        first = await started(server, LOOKS)
        second = await started(server, LOOKS)
        await server.client.post("/api/flows/eager/runs", json={})
        failed = await started(server, "/api/flows/fails/runs")
        assert failed["status"] == "error"

        async def listed(flow: str, **query: Any) -> tuple[list[str], int]:
            body = (await server.client.get(f"/api/flows/{flow}/runs", params=query)).json()
            assert fits("FlowRuns", body)
            return [each["status"] for each in body["runs"]], body["meta"]["total"]

        both = (await server.client.get(LOOKS)).json()["runs"]
        assert [each["runId"] for each in both] == [second["runId"], first["runId"]]
        assert (both[0]["task"], both[0]["stepCount"]) == ("t", 1)
        assert await listed("look", status="success", limit=1) == (["success"], 2)
        assert await listed("look", status="error") == ([], 0)
        assert await listed("eager", status="rejected") == (["rejected"], 1)
        assert await listed("eager", status="error") == ([], 0)
        assert await listed("fails", status="error") == (["error"], 1)
        assert (await server.client.get(f"{LOOKS}?status=odd")).status_code == 400


async def test_a_run_is_followed_to_its_result(tmp_path: Path) -> None:
    """`GET …/runs/{runId}/events`: SSE with `Last-Event-ID`; ends after `flow_complete`."""
    async with flow_server(tmp_path) as server:
        run = await started(server, LOOKS)
        url = f"{LOOKS}/{run['runId']}/events"
        response = await server.client.get(url)
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "event: message\n" in response.text
        whole = frames(response.text)
        kinds = [frame["type"] for _, frame in whole]
        assert kinds[:2] == ["flow_started", "flow_agent_started"]
        assert kinds[-2:] == ["flow_agent_complete", "flow_complete"]
        assert whole[0][1]["steps"] == [{"id": "look", "type": "agent", "agent": "scout"}]
        assert all(fits("RunFrame", frame) for _, frame in whole)
        for number, (at, _) in enumerate(whole[:-1], 1):
            rest = await server.client.get(url, headers={"last-event-id": at})
            assert frames(rest.text) == whole[number:], at
        last = await server.client.get(url, params={"lastEventId": whole[-1][0]})
        assert last.status_code == 204


@pytest.mark.parametrize("last", ["999", "x", "1.2.3", "-1"])
async def test_an_id_outside_of_the_run_is_refused(tmp_path: Path, last: str) -> None:
    async with flow_server(tmp_path) as server:
        run = await started(server, LOOKS)
        url = f"{LOOKS}/{run['runId']}/events"
        response = await server.client.get(url, headers={"last-event-id": last})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_LAST_EVENT_ID")


async def test_a_stream_stays_open_while_the_run_waits_for_a_person(tmp_path: Path) -> None:
    async with flow_server(tmp_path) as server:
        waiting = await started(server)
        url = f"{PICKS}/{waiting['runId']}/events"
        following = asyncio.create_task(server.client.get(url))
        question = waiting["questions"][0]["id"]
        await server.client.post(f"/api/questions/{question}/answer", json={"value": "Go"})
        kinds = types((await asyncio.wait_for(following, 60)).text)
    assert kinds.index("flow_question") < kinds.index("flow_question_answered")
    assert (kinds.count("flow_complete"), kinds[-1]) == (1, "flow_complete")


async def test_a_run_is_aborted_once(tmp_path: Path) -> None:
    """202; 409 `TASK_ENDED` when it has ended."""
    async with flow_server(tmp_path) as server:
        waiting = await started(server)
        url = f"{PICKS}/{waiting['runId']}"
        aborted = await server.client.post(f"{url}/abort")
        assert (aborted.status_code, fits("RunBegun", aborted.json())) == (202, True)
        await server.runtime.requests.wait(waiting["taskId"])
        run = (await server.client.get(url)).json()
        again = await server.client.post(f"{url}/abort")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "TASK_ENDED")
    assert (run["status"], run["result"]["status"]) == ("aborted", "aborted")
    assert [each["state"] for each in run["steps"]] == ["aborted", "skipped", "skipped"]


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/events"), ("POST", "/abort")])
async def test_only_the_owner_reaches_a_run_and_only_by_its_flow(
    tmp_path: Path, method: str, path: str
) -> None:
    """Belongs to a profile: to others they are 404."""
    async with flow_server(tmp_path) as server:
        keys = server.database_parts.keys
        ann, bob = [
            {"authorization": f"Bearer {await keys.create(name)}"} for name in ("ann", "bob")
        ]
        run = (await server.client.post(f"{PICKS}?wait=60", json={}, headers=ann)).json()
        for url, headers in ((PICKS, bob), (LOOKS, ann)):
            whole = f"{url}/{run['runId']}{path}"
            response = await server.client.request(method, whole, headers=headers)
            assert response.status_code == 404, whole
        none = await server.client.request(method, f"{PICKS}/task_none{path}", headers=ann)
        listed = await server.client.get(PICKS, headers=bob)
    assert (none.status_code, listed.json()["runs"]) == (404, [])


async def test_the_document_describes_every_route(tmp_path: Path) -> None:
    """OpenAPI documents them."""
    async with flow_server(tmp_path) as server:
        paths = document(server.app)["paths"]
    run = "/api/flows/{name}/runs/{run_id}"
    for path in ("/api/flows", "/api/flows/check", "/api/catalog", f"{run}/events", f"{run}/abort"):
        assert path in paths
    stream = paths[f"{run}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    frame = stream["itemSchema"]["properties"]["data"]["contentSchema"]
    assert frame == {"$ref": "#/components/schemas/RunFrame"}


class Closed(Hooks):
    """Refuses all runs."""

    async def on_input(self, ctx: Any, message: Any) -> Any:
        return Refuse(f"the office is closed for {ctx.flow}")


async def test_a_run_that_a_hook_refuses_is_reported_immediately(tmp_path: Path) -> None:
    """Rejected: … 409, with `runId` beside `error`."""
    async with flow_server(tmp_path) as server:
        server.runtime.parts.tools.invoker.hooks.add([Closed()])
        for url in (LOOKS, f"{LOOKS}?wait=60"):
            answer = await server.client.post(url, json={"task": "t"})
            body = answer.json()
            assert (answer.status_code, fits("RunRejected", body)) == (409, True)
            assert body["error"] == {
                "code": "HOOK_REFUSED",
                "message": "the office is closed for look",
                "details": {"hook": "Closed"},
            }
            kept = (await server.client.get(f"{LOOKS}/{body['runId']}")).json()
            assert kept["status"] == "rejected"


class Watching(Hooks):
    """Sees calls, and decides about no run."""

    async def before_call(self, ctx: Any, call: Any) -> Any:
        return call


@pytest.mark.parametrize("hook", [Closed(), Watching()])
async def test_a_run_that_waits_for_a_slot_is_answered_at_once_whatever_hooks_there_are(
    tmp_path: Path, hook: Hooks
) -> None:
    """Its hooks are asked when it begins, and a later request reads what they decided."""
    async with flow_server(tmp_path) as server, AsyncExitStack() as stack:
        server.runtime.parts.tools.invoker.hooks.add([hook])
        slots, count = (
            server.runtime.parts.flows.work.slots,
            server.runtime.parts.world.limits.flow_runs,
        )
        for number in range(count):
            taken = slots.taken(TaskId(f"run_{number}"), by_tool=False, resumes=False)
            await stack.enter_async_context(taken)
        async with asyncio.timeout(5):
            answer = await server.client.post(LOOKS, json={"task": "t"})
        assert (answer.status_code, answer.json()["status"]) == (202, "queued")
        await stack.aclose()
        ended = await server.runtime.requests.wait(answer.json()["taskId"])
    assert ended is not None
    assert ended.status == ("failed" if isinstance(hook, Closed) else "succeeded")


async def test_a_flow_with_a_shell_step_is_rejected_where_shell_is_off(tmp_path: Path) -> None:
    """Rejected: the run never began: … shell switched off."""
    shell = HEAD + "steps:\n  - {id: sh, command: make}\n"
    async with flow_server(tmp_path, look=shell) as server:
        answer = await server.client.post(LOOKS)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "FLOW_INVALID")
        assert "switched off in this project" in answer.json()["error"]["message"]
