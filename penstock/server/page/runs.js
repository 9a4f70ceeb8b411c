// Questions of runs of flows that the task of a chat waits for. The frames of the chat name the runs alone, so
// they are looked up: what is asked in a run, and in the runs that it waits for itself.

import { takeQuestion, markWaits } from "./view.js";

const MAX_RUNS = 200; // runs within runs

/** Bring the questions of the view up to date with the runs it waits for; `read` gets JSON of the API. */
export async function lookIntoRuns(view, read) {
  const [open, left, seen] = [new Set(), [...view.runs], new Set()];
  for (let run; (run = left.shift()) !== undefined && seen.size < MAX_RUNS; ) {
    if (seen.has(run)) continue;
    seen.add(run);
    const { questions, runs } = await read(`api/tasks/${encodeURIComponent(run)}`);
    questions.forEach((id) => open.add(id));
    left.push(...runs);
  }
  const shown = view.items.filter((each) => each.kind === "question" && each.inRun && each.status === "open");
  const isNew = (id) => !view.items.some((each) => each.kind === "question" && each.id === id);
  const gone = shown.map((each) => each.id).filter((id) => !open.has(id)); // answered elsewhere, or withdrawn
  for (const id of [...[...open].filter(isNew), ...gone]) takeQuestion(view, await read(`api/questions/${encodeURIComponent(id)}`));
  markWaits(view);
}
