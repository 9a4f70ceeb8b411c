"""The worked examples as their authors wrote them."""

from tests.kit.flows import HEAD

TOP = f"{HEAD}steps:\n"
W1 = """\
  - {id: web, agent: scout}
  - {id: code, agent: scout}
  - {id: report, agent: writer, blockedBy: [web, code], task: "${{result.web.summary}}, \
${{result.code.summary}}"}
"""
W2 = """\
  - {id: a, agent: scout}
  - {id: b, agent: scout}
  - {id: c, agent: scout}
  - {id: d, agent: scout}
"""
W3 = """\
  - {id: plan, agent: writer}
  - {id: build, command: make, on_error: repair}
  - {id: docs, agent: writer, blockedBy: [plan]}
  - {id: notes, agent: writer}
  - {id: check, agent: tester, blockedBy: [docs], end: true}
  - {id: repair, agent: fixer}
"""
W4 = """\
  - {id: choose, question: "How deep?", options: [Quick, Deep], branches: {Quick: quick, \
Deep: deep}}
  - {id: quick, agent: scout}
  - {id: deep, agent: scout}
  - {id: report, agent: writer, blockedBy: [quick, deep], \
task: "${{result.quick.summary}}${{result.deep.summary}}"}
"""
W5 = """\
  - {id: route, agent: judge, task: "Small or large?", branches: {small: patch, large: redesign}}
  - {id: patch, agent: fixer}
  - {id: lint, command: make lint, on_error: redesign}
  - {id: redesign, agent: writer}
"""
W5_END = W5.replace("on_error: redesign", "on_error: redesign, end: true")
W6 = """\
  - {id: gather, agent: scout}
  - {id: draft, agent: writer, blockedBy: [gather], \
task: "${{result.gather.summary}} ${{result.review.summary}}"}
  - {id: review, agent: reviewer, blockedBy: [draft]}
  - {id: again, agent: judge, task: "Pass ${{loop.again.iteration}}", loop_target: draft, \
exit_target: publish, max_iterations: 2}
  - {id: publish, agent: writer}
"""
W7 = """\
  - {id: verify, agent: tester}
  - {id: enough, agent: judge, task: "Good?", loop_target: fix, exit_target: done, \
max_iterations: 3}
  - {id: fix, agent: fixer, on_complete: verify}
  - {id: done, agent: writer}
"""
W8 = """\
  - {id: fetch, agent: scout, on_error: cached}
  - {id: parse, agent: scout, blockedBy: [fetch]}
  - {id: side, agent: scout}
  - {id: sum, agent: writer, blockedBy: [parse, side], end: true}
  - {id: cached, agent: clerk}
"""
W9 = """\
  - {id: make, agent: writer}
  - {id: gate, agent: judge, task: "Try ${{loop.gate.iteration}} of ${{loop.gate.max}}", \
branches: {redo: make, good: publish}, max_iterations: 1}
  - {id: salvage, agent: fixer}
  - {id: publish, agent: writer, blockedBy: [salvage]}
"""
W10 = """\
  - {id: which, question: "Which suites?", options: [Unit, Web, Load], branches: {Unit: unit, \
Web: web, Load: load}, multiSelect: true}
  - {id: unit, path: unit.yaml, on_complete: report}
  - {id: web, path: web.yaml, on_complete: report}
  - {id: load, path: load.yaml, on_complete: report}
  - {id: report, agent: writer}
"""
W11 = """\
  - {id: triage, question: "Known fault?", options: [Known, New], branches: {Known: repair, \
New: explore}}
  - {id: explore, agent: scout, on_complete: repair}
  - {id: repair, agent: fixer}
"""
WORKED = {
    "W1": W1,
    "W2": W2,
    "W3": W3,
    "W4": W4,
    "W5": W5,
    "W5 with end": W5_END,
    "W6": W6,
    "W7": W7,
    "W8": W8,
    "W9": W9,
    "W10": W10,
    "W11": W11,
}
SUITES = {
    "flows/unit.yaml": f"{TOP}  - {{id: sum, agent: scout}}\n",
    "flows/web.yaml": f"{TOP}  - {{id: look, agent: scout}}\n",
    "flows/load.yaml": f"{TOP}  - {{id: sum, agent: scout}}\n",
}
"""The flows that W10 refers to."""
MANY = "".join(f"- {{id: scan-{n}, agent: scout}}\n" for n in range(12))
MANY += "- {id: join, agent: writer, blockedBy: [scan-0, scan-11]}\n"
MANY += "".join(
    f"- {{id: ask-{n}, question: Q, branches: {{On: ask-{n + 1}, Back: scan-{n % 12}}}}}\n"
    for n in range(16)
)
MANY += "- {id: ask-16, agent: writer}\n"
"""Thirty steps, with a way back from every other one."""
