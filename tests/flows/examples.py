"""The worked examples of the page as flows, with their expected runs."""

from collections.abc import Mapping
from typing import Any

from penstock.core.events.flow_events import Outcome
from penstock.flows.definition import Flow, Step
from penstock.flows.steps.agent import AgentStep
from penstock.flows.steps.agent_decision import AgentDecision
from penstock.flows.steps.flow_ref import FlowRef
from penstock.flows.steps.fork import Fork
from penstock.flows.steps.loop_decision import LoopDecision
from penstock.flows.steps.shell import Shell

Answers = Mapping[str, Any]
"""The result of visit `step/n`, or of every visit of a step: an outcome, or a router's targets."""


def agent(step_id: str, *blocked_by: str, **fields: Any) -> Step:
    return AgentStep(step_id=step_id, agent="scout", blocked_by=blocked_by, **fields)


def shell(step_id: str, **fields: Any) -> Step:
    return Shell(step_id=step_id, command="make", **fields)


def ref(step_id: str, **fields: Any) -> Step:
    return FlowRef(step_id=step_id, path=f"{step_id}.yaml", **fields)


def fork(step_id: str, *targets: str, **fields: Any) -> Step:
    branches = {each: each for each in targets}
    return Fork(step_id=step_id, question="Which?", branches=branches, options=targets, **fields)


def decision(step_id: str, *targets: str, **fields: Any) -> Step:
    branches = {each: each for each in targets}
    return AgentDecision(step_id=step_id, agent="judge", task="Which?", branches=branches, **fields)


def loop(step_id: str, again: str, out: str) -> Step:
    return LoopDecision(
        step_id=step_id, agent="judge", task="Again?", loop_target=again, exit_target=out
    )


def flow(*steps: Any, max_concurrent: int = 4) -> Flow:
    return Flow(name="demo", description="d", steps=tuple(steps), max_concurrent=max_concurrent)


W1 = (agent("web"), agent("code"), agent("report", "web", "code"))
W2 = tuple(agent(each) for each in "abcd")
W3 = (
    agent("plan"),
    shell("build", on_error="repair"),
    agent("docs", "plan"),
    agent("notes"),
    agent("check", "docs", is_last=True),
    agent("repair"),
)
W4 = (
    fork("choose", "quick", "deep"),
    agent("quick"),
    agent("deep"),
    agent("report", "quick", "deep"),
)
W5 = (
    decision("route", "patch", "redesign"),
    agent("patch"),
    shell("lint", on_error="redesign"),
    agent("redesign"),
)
W5_END = (*W5[:2], shell("lint", on_error="redesign", is_last=True), W5[3])
W6 = (
    agent("gather"),
    agent("draft", "gather"),
    agent("review", "draft"),
    loop("again", "draft", "publish"),
    agent("publish"),
)
W7 = (
    agent("verify"),
    loop("enough", "fix", "done"),
    agent("fix", on_complete="verify"),
    agent("done"),
)
W8 = (
    agent("fetch", on_error="cached"),
    agent("parse", "fetch"),
    agent("side"),
    agent("sum", "parse", "side", is_last=True),
    agent("cached"),
)
W9 = (
    agent("make"),
    decision("gate", "make", "publish", max_iterations=1),
    agent("salvage"),
    agent("publish", "salvage"),
)
W10 = (
    fork("which", "unit", "web", "load", is_multiple=True),
    ref("unit", on_complete="report"),
    ref("web", on_complete="report"),
    ref("load", on_complete="report"),
    agent("report"),
)
W11 = (fork("triage", "repair", "explore"), agent("explore", on_complete="repair"), agent("repair"))
SOFT, HARD = Outcome.SOFT, Outcome.HARD

EXAMPLES: list[tuple[str, tuple[Any, ...], Answers, Mapping[str, int], str]] = [
    (
        "W1: two in parallel, one join",
        W1,
        {},
        {"web": 3},
        "+web/1 +code/1 -code/1 -web/1 +report/1 -report/1 success",
    ),
    (
        "W3: separators, blockedBy across segments, end",
        W3,
        {},
        {},
        (
            "+plan/1 -plan/1 +build/1 -build/1 +docs/1 +notes/1 -docs/1 +check/1 -notes/1 "
            "-check/1 skip repair (flow_ended) success"
        ),
    ),
    (
        "W3: build exits 1",
        W3,
        {"build": SOFT},
        {},
        (
            "+plan/1 -plan/1 +build/1 !build/1 jump repair skip docs, notes, check (jumped_over) "
            "+repair/1 -repair/1 success"
        ),
    ),
    (
        "W4: branches and a join in one segment",
        W4,
        {"choose": ["quick"]},
        {},
        (
            "+choose/1 -choose/1 jump quick skip deep (not_on_branch) +quick/1 -quick/1 +report/1 "
            "-report/1 success"
        ),
    ),
    (
        "W5: branches in different segments",
        W5,
        {"route": ["patch"]},
        {},
        (
            "+route/1 -route/1 jump patch +patch/1 -patch/1 +lint/1 -lint/1 +redesign/1 "
            "-redesign/1 success"
        ),
    ),
    (
        "W5: with end on lint",
        W5_END,
        {"route": ["patch"]},
        {},
        (
            "+route/1 -route/1 jump patch +patch/1 -patch/1 +lint/1 -lint/1 skip redesign "
            "(flow_ended) success"
        ),
    ),
    (
        "W6: a loop back into the middle of a segment",
        W6,
        {"again/1": ["draft"], "again/2": ["draft"], "again/3": ["publish"]},
        {},
        (
            "+gather/1 -gather/1 +draft/1 -draft/1 +review/1 -review/1 +again/1 -again/1 jump "
            "draft +draft/2 -draft/2 +review/2 -review/2 +again/2 -again/2 jump draft +draft/3 "
            "-draft/3 +review/3 -review/3 +again/3 -again/3 jump publish +publish/1 -publish/1 "
            "success"
        ),
    ),
    (
        "W7: the loop body follows the decision",
        W7,
        {"enough/1": ["fix"], "enough/2": ["done"]},
        {},
        (
            "+verify/1 -verify/1 +enough/1 -enough/1 jump fix skip done (not_on_branch) +fix/1 "
            "-fix/1 jump verify +verify/2 -verify/2 +enough/2 -enough/2 jump done +done/1 -done/1 "
            "success"
        ),
    ),
    (
        "W8: nothing fails",
        W8,
        {},
        {"side": 3},
        (
            "+fetch/1 +side/1 -fetch/1 +parse/1 -parse/1 -side/1 +sum/1 -sum/1 skip cached "
            "(flow_ended) success"
        ),
    ),
    (
        "W8: fetch soft",
        W8,
        {"fetch": SOFT},
        {"side": 3},
        (
            "+fetch/1 +side/1 !fetch/1 -side/1 jump cached skip parse, sum (jumped_over) "
            "+cached/1 -cached/1 success"
        ),
    ),
    (
        "W8: side soft while parse runs",
        W8,
        {"side": SOFT},
        {"side": 3, "parse": 5},
        "+fetch/1 +side/1 -fetch/1 +parse/1 !side/1 ~parse/1 skip sum, cached (flow_ended) error",
    ),
    (
        "W8: fetch hard, its on_error does not help",
        W8,
        {"fetch": HARD},
        {"side": 3},
        "+fetch/1 +side/1 !fetch/1 ~side/1 skip parse, sum, cached (flow_ended) error",
    ),
    (
        "W9: a back edge, then forced to fall through",
        W9,
        {"gate/1": ["make"], "gate/2": []},
        {},
        (
            "+make/1 -make/1 +gate/1 -gate/1 jump make +make/2 -make/2 +gate/2 -gate/2 +salvage/1 "
            "-salvage/1 +publish/1 -publish/1 success"
        ),
    ),
    (
        "W9: good at once",
        W9,
        {"gate": ["publish"]},
        {},
        (
            "+make/1 -make/1 +gate/1 -gate/1 jump publish skip salvage (not_on_branch) +publish/1 "
            "-publish/1 success"
        ),
    ),
    (
        "W10: several answers, targets in several segments",
        W10,
        {"which": ["load", "unit"]},
        {},
        (
            "+which/1 -which/1 jump unit, load +unit/1 -unit/1 skip web (jumped_over) +load/1 "
            "-load/1 jump report +report/1 -report/1 success"
        ),
    ),
    (
        "W11: a jump inside one segment",
        W11,
        {"triage": ["explore"]},
        {},
        (
            "+triage/1 -triage/1 jump explore skip repair (not_on_branch) +explore/1 -explore/1 "
            "jump repair +repair/1 -repair/1 success"
        ),
    ),
]
