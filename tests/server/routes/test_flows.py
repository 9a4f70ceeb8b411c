"""Flows over HTTP: listed, read, checked, written, removed."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.app.plugins.api import PluginApi
from tests.kit.flow_server import ASKS, LOOK, flow_server
from tests.kit.server import served

pytestmark = pytest.mark.slow("opens a store for each test")
BROKEN = LOOK.replace("scout", "scuot")
UNKNOWN = {
    "line": 4,
    "severity": "error",
    "message": 'unknown agent "scuot" in step "look"',
    "suggestion": 'did you mean "scout"?',
}


async def test_flows_are_listed_with_their_inputs(tmp_path: Path) -> None:
    """`{name, description, source, path, taskRequired, taskPrompt?, inputs?, stepCount, valid}`."""
    inputs = "inputs: {n: {type: number, required: true}, s: {type: string, default: x}}\n"
    needy = LOOK.replace("steps:", f"task_required: true\ntask_prompt: What?\n{inputs}steps:")
    async with flow_server(tmp_path, needy=needy, broken=BROKEN) as server:
        body = (await server.client.get("/api/flows")).json()
        answer_body = (await server.client.get("/api/flows", params={"search": "needy"})).json()
    assert [(each["name"], each["valid"]) for each in body["flows"]] == [
        ("broken", False),
        ("flows:edit", True),
        ("flows:new", True),
        ("needy", True),
    ]
    assert body["meta"] == {"total": 4, "limit": 50, "offset": 0}
    assert [each["name"] for each in answer_body["flows"]] == ["needy"]
    result = body["flows"][-1].pop("inputs")
    assert [(each["name"], each["required"], each.get("default")) for each in result] == [
        ("n", True, None),
        ("s", False, "x"),
    ]
    assert body["flows"][-1] == {
        "name": "needy",
        "description": "d",
        "source": "local",
        "path": "flows/needy.yaml",
        "taskRequired": True,
        "taskPrompt": "What?",
        "stepCount": 1,
        "valid": True,
    }


async def test_a_flow_is_read_with_its_text_and_diagram(tmp_path: Path) -> None:
    """With `content`, `steps`, `diagnostics`, `graph` (Mermaid)."""
    async with flow_server(tmp_path) as server:
        body = (await server.client.get("/api/flows/dom:asks")).json()
    assert body["content"] == ASKS
    assert body["steps"][:2] == [
        {"id": "pick", "type": "fork"},
        {"id": "look", "type": "agent", "agent": "scout"},
    ]
    assert body["graph"].startswith("flowchart TD\n")
    assert (body["diagnostics"], body["valid"]) == ([], True)


async def test_a_flow_with_errors_can_be_read(tmp_path: Path) -> None:
    async with flow_server(tmp_path, broken="steps: 5\n") as server:
        body = (await server.client.get("/api/flows/broken")).json()
    assert (body["steps"], body["graph"], body["valid"]) == ([], None, False)
    assert body["diagnostics"][0]["line"] == 1


async def test_an_unknown_flow_is_refused_with_the_nearest(tmp_path: Path) -> None:
    async with flow_server(tmp_path) as server:
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/runs"), ("GET", "/runs")):
            response = await server.client.request(method, f"/api/flows/lok{path}")
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (404, "NOT_FOUND"), path
            assert error["message"] == "there is no flow \"/lok\". Did you mean 'look'?"


async def test_a_text_is_checked_without_storing_it(tmp_path: Path) -> None:
    async with flow_server(tmp_path) as server:
        response = await server.client.post("/api/flows/check", json={"content": BROKEN})
        assert response.json() == {"diagnostics": [UNKNOWN]}
        assert not (tmp_path / "flows/unwritten.yaml").exists()
        assert (await server.client.post("/api/flows/check", json={})).status_code == 422


async def test_a_text_can_be_dry_run(tmp_path: Path) -> None:
    """POST `/api/flows/check {content, dryRun: true}`."""
    text = LOOK.replace("task:", "end: true, task:") + "  - {id: late, agent: scout}\n"
    async with flow_server(tmp_path) as server:
        ask = {"content": text, "dryRun": True}
        body = (await server.client.post("/api/flows/check", json=ask)).json()
        assert body["diagnostics"] == [
            {"line": 5, "severity": "warning", "message": 'none of 2 runs reached step "late"'}
        ]
        assert body["dryRun"] == {
            "runs": 2,
            "starts": 2,
            "reached": ["look"],
            "branches": [],
            "complete": True,
        }
        broken = await server.client.post("/api/flows/check", json=ask | {"content": BROKEN})
        assert broken.json() == {"diagnostics": [UNKNOWN]}


async def test_a_written_flow_is_known_at_once(tmp_path: Path) -> None:
    """`POST /api/flows {path, content}`: 201 as `flow_write`."""
    async with flow_server(tmp_path) as server:
        body = {"path": "flows/x/new.yaml", "content": LOOK}
        response = await server.client.post("/api/flows", json=body)
        written = {"written": True, "path": "flows/x/new.yaml", "diagnostics": [], "name": "x:new"}
        answer_body = response.json()
        dry = answer_body.pop("dryRun")
        assert (response.status_code, answer_body) == (201, written)
        assert (dry["reached"], dry["problems"]) == (["look"], [])
        started = await server.client.post("/api/flows/x:new/runs?wait=60")
        assert started.json()["status"] == "success"


async def test_a_flow_with_errors_is_refused_with_its_diagnostics(tmp_path: Path) -> None:
    """With errors 422 `FLOW_INVALID`, `details.diagnostics`."""
    async with flow_server(tmp_path) as server:
        for method, path in (("POST", ""), ("PUT", "/look")):
            body = {"content": BROKEN} | ({"path": "bad"} if method == "POST" else {})
            response = await server.client.request(method, f"/api/flows{path}", json=body)
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (422, "FLOW_INVALID")
            assert error["details"]["diagnostics"] == [UNKNOWN]
    assert not (tmp_path / "flows/bad.yaml").exists()
    assert (tmp_path / "flows/look.yaml").read_text() == LOOK


@pytest.mark.parametrize("path", ["../x.yaml", "/etc/x.yaml", "agents/x.yaml", "x.md"])
async def test_a_path_outside_of_the_flow_folders_is_refused(tmp_path: Path, path: str) -> None:
    async with flow_server(tmp_path) as server:
        body = {"path": path, "content": LOOK}
        response = await server.client.post("/api/flows", json=body)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (422, "VALIDATION_ERROR")
        assert error["details"][0]["field"] == "/path"


async def test_a_flow_is_replaced_and_removed_and_its_runs_stay(tmp_path: Path) -> None:
    async with flow_server(tmp_path) as server:
        run = (await server.client.post("/api/flows/look/runs?wait=60")).json()
        changed = LOOK.replace("description: d", "description: new")
        response = await server.client.put("/api/flows/look", json={"content": changed})
        assert (response.status_code, response.json()["written"]) == (200, True)
        assert (await server.client.get("/api/flows/look")).json()["description"] == "new"
        assert (await server.client.delete("/api/flows/look")).status_code == 204
        assert (await server.client.get("/api/flows/look")).status_code == 404
        (kept,) = (await server.client.get("/api/flows/look/runs")).json()["runs"]
        assert kept["runId"] == run["runId"]


async def test_a_flow_that_a_schedule_runs_is_not_removed(tmp_path: Path) -> None:
    """Spec: "Deleting a flow that a schedule uses: 409 with the schedules"."""
    schedules = "/api/agents/assistant/schedules"
    runs = {"name": "Nightly", "callback_type": "workflow", "callback_id": "look"}
    async with flow_server(tmp_path) as server:
        made = await server.client.post(schedules, json=runs | {"cron_expression": "@daily"})
        other = {"name": "Hi", "callback_type": "message", "input": {"content": "Hi"}}
        await server.client.post(schedules, json=other | {"cron_expression": "@daily"})
        schedule_id = made.json()["id"]
        refused = await server.client.delete("/api/flows/look")
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (409, "NAME_TAKEN")
        assert f'"/look" runs by the schedules {schedule_id} (Nightly)' in error["message"]
        assert error["details"] == {"schedules": [schedule_id]}
        paused = {"status": "paused"}
        await server.client.put(f"{schedules}/{schedule_id}", json=paused)
        assert (await server.client.delete("/api/flows/look")).status_code == 409
        assert (await server.client.get("/api/flows/look")).status_code == 200
        await server.client.delete(f"{schedules}/{schedule_id}")
        assert (await server.client.delete("/api/flows/look")).status_code == 204


async def test_writing_or_removing_a_flow_notifies_plugins(tmp_path: Path) -> None:
    """§20: `flow_rediscovered {agents, flows, diagnostics}`, "also after §15 writes"."""
    collected: list[Sequence[str]] = []

    def plugin(api: PluginApi) -> None:
        api.on("flow_rediscovered", lambda event: collected.append(event["flows"]))

    async with flow_server(tmp_path, plugins=[plugin]) as server:
        for method, path, body in (
            ("POST", "", {"path": "new", "content": LOOK}),
            ("POST", "", {"path": "bad", "content": BROKEN}),
            ("PUT", "/new", {"content": LOOK}),
            ("DELETE", "/new", None),
        ):
            await server.client.request(method, f"/api/flows{path}", json=body)
    assert ["new" in each for each in collected] == [True, True, False]


async def test_the_catalog_is_that_of_the_flow_architect(tmp_path: Path) -> None:
    """`GET /api/catalog`: the array of `agent_catalog`."""
    async with flow_server(tmp_path) as server:
        body = (await server.client.get("/api/catalog")).json()
    local = [each for each in body if each["source_type"] == "local"]
    assert [each["name"] for each in local] == ["judge", "scout", "writer"]
    assert local[1] == {
        "name": "scout",
        "description": "Works.",
        "tools": [],
        "source_type": "local",
        "source_path": "agents/scout.md",
        "architect": {"use_when": "Works."},
    }


async def test_a_server_without_a_folder_has_no_flows() -> None:
    async with served() as server:
        response = await server.client.get("/api/flows")
    assert (response.status_code, response.json()["error"]["code"]) == (422, "NOT_AVAILABLE")


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/api/flows", "read"),
        ("GET", "/api/flows/look", "read"),
        ("GET", "/api/catalog", "read"),
        ("GET", "/api/flows/look/runs", "read"),
        ("POST", "/api/flows/check", "read"),
        ("POST", "/api/flows/look/runs", "chat"),
        ("POST", "/api/flows", "manage"),
        ("PUT", "/api/flows/look", "manage"),
        ("DELETE", "/api/flows/look", "manage"),
    ],
)
async def test_each_route_needs_its_permission(
    tmp_path: Path, method: str, path: str, needed: str
) -> None:
    """`read` to read, `chat` to start, answer and abort, `manage` to write flows."""
    async with flow_server(tmp_path) as server:
        keys = server.database_parts.keys
        others = {"read", "chat", "manage"} - {needed}
        key = await keys.create("k", permissions=sorted(others))
        headers = {"authorization": f"Bearer {key}"}
        response = await server.client.request(method, path, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert repr(needed) in response.json()["error"]["message"]


async def test_a_full_disk_is_not_the_error_of_a_request_to_write_a_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is 503, as elsewhere, and the old flow stays."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with flow_server(tmp_path) as server:
        before = (await server.client.get("/api/flows/look")).json()["content"]
        with monkeypatch.context() as patch:
            for name in ("replace", "rename", "link"):
                patch.setattr(os, name, full)
            wrong = await server.client.put(
                "/api/flows/look", json={"content": f"{before}# more\n"}
            )
        after = (await server.client.get("/api/flows/look")).json()["content"]
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (503, "NOT_READY")
    assert "No space is left on the disk" in wrong.json()["error"]["message"]
    assert after == before
