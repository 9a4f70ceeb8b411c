// What frames fold into: the view that the page shows. It knows neither the server nor the document.

export const newView = () => ({ items: [], state: "idle", last: null, task: null, turn: 0, runs: [], agent: null });

/** Fold one frame into the view. FOLDS defines what each type of frame means. */
export function fold(view, frame, id) {
  view.last = id ?? view.last;
  if (Object.hasOwn(FOLDS, frame.type)) FOLDS[frame.type](view, frame);
}

const replyOf = (frame) => (frame.closing ? "closing" : frame.iteration);
const FOLDS = {
  message_start(view, frame) {
    Object.assign(view, { state: "working", task: frame.taskId, model: frame.model });
    meet(view, frame.agentId ?? view.first);
    const pending = view.items.find((each) => each.kind === "user" && [frame.userMessageId, null].includes(each.id));
    if (pending) pending.id = frame.userMessageId;
    view.turn = view.items.length;
  },
  handed_off(view, frame) {
    Object.assign(view, { model: frame.model, first: undefined });
    meet(view, frame.agentId);
  },
  handed_back(view, frame) {
    // Frames do not name the agent that a conversation started with; this one does.
    view.first = frame.agentId;
    meet(view, frame.agentId);
  },
  thinking: (view, frame) => grow(view, "thinking", frame.iteration, frame.delta ?? ""),
  content_delta: (view, frame) => grow(view, "text", replyOf(frame), frame.delta),
  content_reset(view, frame) {
    const isGone = (each) => ["text", "thinking"].includes(each.kind) && each.of === replyOf(frame);
    view.items = view.items.filter((each, place) => place < view.turn || !isGone(each));
  },
  tool_call: (view, frame) => add(view, { ...frame, kind: "call", result: null }),
  tool_result: (view, frame) => change(view, "call", frame.toolCallId, { result: frame }),
  note: (view, frame) => add(view, { ...frame, kind: "note" }),
  question(view, frame) {
    add(view, { ...frame, asks: frame.kind, kind: "question", status: "open" });
    change(view, "call", frame.toolCallId, { waits: true });
  },
  question_answered(view, frame) {
    const call = view.items.find((each) => each.kind === "question" && each.id === frame.id)?.toolCallId;
    change(view, "question", frame.id, { status: frame.status, answer: frame.answer });
    change(view, "call", call, { waits: false });
    view.state = "working";
  },
  suspended(view, frame) {
    Object.assign(view, { state: "waiting", runs: frame.runs ?? [] });
    if (frame.blockedOn) add(view, { kind: "error", code: "BLOCKED", message: frame.message });
  },
  message_complete(view, frame) {
    const said = view.items.slice(view.turn).findLast((each) => ["text", "call"].includes(each.kind));
    if (frame.content && said?.kind !== "text") add(view, { kind: "text", text: frame.content });
    add(view, { kind: "end", model: view.model, usage: withRuns(frame.usage, view.items.slice(view.turn)) });
    view.state = "idle";
  },
  error(view, frame) {
    for (const { kind, id, status, result, inRun } of view.items) {
      if (status === "open" && !inRun) change(view, kind, id, { status: "cancelled" });
      if (result === null) change(view, kind, id, { cut: true });
    }
    add(view, { kind: "error", code: frame.code, message: frame.message });
    view.state = "idle";
  },
};

/** Show a question of a run that the task waits for, or its outcome. */
export function takeQuestion(view, record) {
  const { id, kind, status, answer } = record;
  const known = view.items.find((each) => each.kind === "question" && each.id === id);
  if (!known) add(view, { ...record, asks: kind, kind: "question", inRun: true });
  else if (known.status !== status) change(view, "question", id, { status, answer });
}
/** Say of calls that wait for runs whether it is for a person. */
export function markWaits(view) {
  const waits = view.items.some((each) => each.inRun && each.status === "open");
  for (const each of view.items) if (each.kind === "call" && each.result === null && !each.waits !== !waits) change(view, "call", each.id, { waits });
}

/** Take in a message of the history, which is over. */
export function recall(view, message) {
  const { metadata: about = {} } = message;
  if (message.role === "user") {
    const files = (message.attachments ?? []).map((each) => `[${each.name ?? each.mimeType}]`);
    add(view, { kind: "user", id: message.id, text: [message.content, ...files].filter(Boolean).join("\n") });
    return about.error && add(view, { kind: "error", ...about.error });
  }
  const results = new Map((message.toolResults ?? []).map((each) => [each.toolCallId, each]));
  for (const call of message.toolCalls ?? []) add(view, { ...call, kind: "call", result: results.get(call.id) ?? null, cut: true });
  meet(view, about.agentId);
  add(view, { kind: "text", text: message.content });
  add(view, { kind: "end", model: about.model, usage: withRuns(about.usage, (message.toolResults ?? []).map((result) => ({ result }))) });
}
/** The usage of a message with that of the runs its calls waited for: the message counts its own agent alone. */
function withRuns(usage, calls) {
  const total = { ...usage };
  for (const { result } of calls) if (result?.name === "execute_workflow" && result.success)
    for (const [key, spent] of Object.entries(result.result?.output?.usage ?? {})) total[key] = (total[key] ?? 0) + spent;
  return total;
}

export const add = (view, item) => view.items.push({ ...item, rev: 0 });
/** Show that another agent answers from here on; null is the one that the conversation started with. */
function meet(view, agent = null) {
  if (view.agent !== agent) add(view, { kind: "agent", agent });
  view.agent = agent;
}
const change = (view, kind, id, news) => view.items.filter((each) => each.kind === kind && each.id === id)
  .forEach((each) => Object.assign(each, news, { rev: each.rev + 1 }));
function grow(view, kind, of, text) {
  const last = view.items.slice(view.turn).at(-1);
  if (last?.kind !== kind || last.of !== of) add(view, { kind, of, text });
  else Object.assign(last, { text: last.text + text, rev: last.rev + 1 });
}
