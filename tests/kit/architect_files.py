"""An agent and a flow that the architect writes, and broken ones that it must fix."""

AGENT = """---
name: guide
description: Finds what is worth seeing.
tools:
inputs: [place]
outputs:
  - {name: sights, type: array}
---
Name the sights of ${{input.place}}.
"""
FLOW = """name: tour
description: A page about a place, as good as it gets in three rounds
task_required: true
steps:
  - id: look
    agent: guide
    inputs: {place: "${{task}}"}
  - id: enough
    type: agent-loop-decision
    agent: flow-decision
    task: "Are these enough? ${{result.look.sights}}"
    loop_target: look
    exit_target: page
    max_iterations: 3
  - {id: page, agent: flow-decision, task: "A page of ${{result.look.sights}}"}
"""
BROKEN_AGENT = AGENT.replace("name: sights", "name: status")
BROKEN_FLOW = FLOW.replace("agent: guide", "agent: gide")
