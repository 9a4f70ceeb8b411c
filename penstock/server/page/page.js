// The page of penstock: one reducer (view.js) folds the frames of a chat into a view, one loop keeps the
// stream alive, one painter shows the view. What others wrote only ever becomes the text of a node.
// Addresses are relative to the page, which may be mounted anywhere.

import { lookIntoRuns } from "./runs.js";
import { add, takeQuestion, fold, markWaits, newView, recall } from "./view.js";

const PATIENCE = [300, 700, 1500, 2000]; // milliseconds between two tries
const SILENCE = 60_000; // the server pings more often than this
const AWAY = "The server cannot be reached. This page waits for it, and continues by itself.";
const GONE = "This agent is missing on this server. What was said to it can be read, answered and deleted.";
const OTHER = "Other (describe)"; // how an option is spelled that means: in my own words

// ---- the server ----------------------------------------------------------------------------------
const at = { agent: null, conversation: null, secret: null, view: newView(), stream: null };
class Refused extends Error {
  constructor(status, { code = "", message = `the server answered ${status}`, details } = {}) {
    const issues = Array.isArray(details) ? details.filter((each) => !message.includes(each.issue)) : [];
    super([message, ...issues.map((each) => `${each.field} ${each.issue}`.trim())].join("\n"));
    Object.assign(this, { status, code });
  }
}
async function ask(path, { headers = {}, body, ...more } = {}) {
  if (at.secret) headers.authorization = `Bearer ${at.secret}`;
  const post = body && { method: "POST", body: JSON.stringify(body) };
  if (post) headers["content-type"] = "application/json";
  const response = await fetch(path, { cache: "no-store", ...post, ...more, headers });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  if (response.status === 401) show("key", true);
  throw new Refused(response.status, error);
}
const read = async (path) => (await ask(path)).json();
const chat = (more = "") => `api/agents/${encodeURIComponent(at.agent)}/chat${more}`;
const isAway = (error) => error instanceof Refused ? error.status >= 500 || error.status === 429
  : error instanceof TypeError || error.name === "AbortError"; // so a lost connection is called
const said = (error) => (!(error instanceof Refused) && isAway(error) ? "The server cannot be reached; try again in a moment." : error.message);
async function* framesOf(response, cut) {
  const [reader, decoder] = [response.body.getReader(), new TextDecoder()];
  for (let rest = ""; ; ) {
    const alarm = setTimeout(() => cut.abort(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(alarm));
    if (done) return;
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data) yield [fields.id, JSON.parse(fields.data)];
    }
  }
}

/** Send a message, or continue one, until its stream ends; a dropped stream is opened again. */
async function follow(pending = null) {
  const me = (at.stream = {});
  const key = { "idempotency-key": crypto.getRandomValues(new Uint32Array(4)).join("-") }; // sent twice, taken once
  for (let missed = 0; at.stream === me; missed += 1) {
    const cut = (me.cut = new AbortController());
    try {
      const response = pending
        ? await ask(chat(), { body: pending, headers: key, signal: cut.signal }) : await resume(cut.signal);
      if (at.stream !== me) return;
      [pending, missed] = [null, 0];
      tell("");
      arrived(response);
      if (response.status === 204) at.view.state = "idle"; // all is said
      else for await (const [id, frame] of framesOf(response, cut)) {
        if (at.stream !== me) return;
        fold(at.view, frame, id);
        watchRuns(at.view);
        paintSoon();
        if (at.view.state === "idle") break;
      }
    } catch (error) {
      if (at.stream !== me) return;
      if (!isAway(error)) return giveUp(pending, error);
      tell(AWAY);
    }
    paintSoon();
    if (at.view.state === "idle") return settle(cut);
    await new Promise((done) => setTimeout(done, PATIENCE[Math.min(missed, PATIENCE.length - 1)]));
  }
}
/** Ask what is asked in runs, for as long as the task waits for them. */
async function watchRuns(view) {
  if (view.isWatched || view.state !== "waiting" || !view.runs.length) return;
  view.isWatched = true;
  while (at.view === view && view.state === "waiting") {
    try {
      await lookIntoRuns(view, read);
    } catch (error) {
      if (!isAway(error)) { tell(`A run waits for an answer that this page cannot show: ${said(error)}`); break; }
    }
    paintSoon();
    await new Promise((done) => setTimeout(done, PATIENCE.at(-1)));
  }
  view.isWatched = false;
}
function answeredInRun(question) {
  takeQuestion(at.view, question);
  markWaits(at.view);
  paintSoon();
}
function resume(signal) {
  const query = new URLSearchParams({ conversationId: at.conversation });
  if (at.view.state === "waiting") query.set("follow", "true"); // another person may answer
  const headers = at.view.last === null ? {} : { "last-event-id": at.view.last };
  return ask(chat(`/stream?${query}`), { headers, signal });
}
function arrived(response) {
  const id = response.headers.get("x-conversation-id");
  at.view.task = response.headers.get("x-task-id") ?? at.view.task;
  if (!id || id === at.conversation) return;
  at.conversation = id;
  history.replaceState(null, "", `#${encodeURIComponent(at.agent)}/${id}`);
  listConversations();
}
function settle(cut) {
  at.stream = null;
  cut.abort();
  at.view.runs = []; // none is waited for: what they asked is answered or withdrawn
  lookIntoRuns(at.view, read).catch(() => {}).finally(paintSoon);
  listConversations();
}
function giveUp(pending, error) {
  [at.stream, at.view.state] = [null, "idle"];
  at.view.items = at.view.items.filter((each) => each.kind !== "user" || each.id !== null);
  byId("content").value ||= pending?.content ?? "";
  tell(said(error));
  paintSoon();
}

// ---- the painter ---------------------------------------------------------------------------------
const byId = (id) => document.getElementById(id);
const show = (id, isShown) => (byId(id).hidden = !isShown);
const tell = (text) => byId("notice").textContent === text || keepEnd(() => (byId("notice").textContent = text));
const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Change the view; a reader at the end stays at the end. */
function keepEnd(changes) {
  const scroller = document.querySelector("main");
  const isAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
  changes();
  if (isAtEnd) scroller.scrollTop = scroller.scrollHeight;
}

/** Make an element; its content is nodes and text, never markup. */
function make(tag, properties = {}, ...content) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...content.filter((each) => each !== null && each !== undefined && each !== ""));
  return node;
}
const painters = {
  user: ({ text }) => make("div", { className: "user" }, text),
  text: ({ text }) => make("div", { className: "text" }, text),
  agent: ({ agent }) => make("div", { className: "end" }, `${agent ?? at.agent} answers from here on`),
  thinking: ({ text }) => make("details", { className: "thinking", open: true }, make("summary", {}, "Thinking"), make("div", {}, text)),
  call: paintCall,
  note: ({ event, level, title, message, payload }) => make("div", { className: level === "error" ? "error" : "end" },
    [title ?? event, message, payload?.text ?? (payload && JSON.stringify(payload))].filter(Boolean).join(" · ")),
  question: (item) => (item.status === "open" ? paintQuestion(item) : paintAnswered(item)),
  error: ({ code, message }) => code === "CANCELLED" ? make("div", { className: "error stopped" }, "Stopped.")
    : make("div", { className: "error" }, `${message} (${code})`),
  end: ({ model, usage = {} }) => make("div", { className: "end" }, [model,
    usage.inputTokens > 0 && `${usage.inputTokens} tokens in, ${usage.outputTokens} out`,
    usage.toolCalls > 0 && `${usage.toolCalls} ${usage.toolCalls === 1 ? "call" : "calls"}`].filter(Boolean).join(" · ")),
};
function paintCall({ name, arguments: given, argumentsText, result, waits, cut }) {
  const [mood, state] = result === null ? (cut ? ["", "cut"] : waits ? ["asks", "waits for you"] : ["busy", "running"])
    : result.success ? ["good", "done"] : ["bad", result.code];
  const node = make("div", { className: `call ${mood}` }, make("div", { className: "head" }, make("strong", {}, name),
    make("code", {}, argumentsText ?? JSON.stringify(given)), make("span", { className: "state" }, state)));
  if (result === null) return node;
  const preview = result.success ? result.resultPreview : [result.error, result.suggestion].filter(Boolean).join("\n");
  node.append(make("div", { className: "preview" }, preview ?? ""));
  const blob = ({ url }) => `api/blobs/${url.split("api/blobs/").at(-1)}`; // of this server alone, wherever it is mounted
  for (const each of result.images ?? []) node.append(make("img", { src: blob(each), alt: `An image from ${name}`, loading: "lazy" }));
  for (const each of result.files ?? []) node.append(make("a", { href: blob(each), download: "" }, `${each.mimeType}, ${each.bytes} bytes`));
  const whole = result.success && result.result !== null ? pretty(result.result) : preview;
  if (whole !== preview) node.append(make("details", {}, make("summary", {}, "Whole result"), make("pre", { tabIndex: 0 }, whole)));
  return node;
}
function paintAnswered({ text, status, answer = {} }) {
  const { decision, value, text: words, cancel, decide, note = answer.notes } = answer;
  const what = decision ? { approve: "Approved", reject: "Rejected" }[decision]
    : decide ? "The agent decides" : cancel || status !== "answered" ? "Not answered"
    : typeof value === "boolean" ? (value ? "Yes" : "No") : [value ?? words ?? ""].flat().map(pretty).join(", ");
  return make("div", { className: "question done" }, make("div", { className: "quiet" }, text),
    make("div", {}, `${what}${answer.input ? `, with ${JSON.stringify(answer.input)}` : ""}${note ? `: ${note}` : ""}`));
}

/** A question with its form; `form.answer` sends what the person chose. */
function paintQuestion(item) {
  const [form, problem] = [make("form"), make("div", { className: "problem", role: "alert" })];
  form.answer = async (body) => {
    problem.textContent = "";
    const parts = [...form.elements].filter((each) => !each.disabled);
    parts.forEach((each) => (each.disabled = true));
    try {
      const { question } = await (await ask(`api/questions/${encodeURIComponent(item.id)}/answer`, { body })).json();
      if (item.inRun) answeredInRun(question); // no frame of the chat says it
      byId("content").focus();
    } catch (error) {
      problem.textContent = said(error);
      parts.forEach((each) => (each.disabled = false));
    }
  };
  (item.asks === "approval" ? fillApproval : fillReply)(form, item, problem);
  form.append(problem);
  return make("div", { className: "question" }, make("div", { className: "asked" }, item.text),
    item.context ? make("div", { className: "quiet" }, item.context) : null, form);
}
const button = (text, onclick, className = "") => make("button", { type: "button", onclick, className }, text);
const field = (label) => { const node = make("input", { placeholder: label }); node.setAttribute("aria-label", label); return node; };
function fillApproval(form, item, problem) {
  const [note, shown] = [field("A note (optional)"), pretty(item.arguments ?? {})];
  const input = make("textarea", { value: shown, hidden: true, spellcheck: false });
  const plain = make("pre", { tabIndex: 0 }, shown);
  input.setAttribute("aria-label", "Input as JSON");
  const decide = (decision, more) => form.answer({ decision, ...(note.value && { note: note.value }), ...more });
  const approve = () => {
    try {
      decide("approve", input.value !== shown && { input: JSON.parse(input.value) });
    } catch (error) {
      problem.textContent = `The input is not JSON: ${error.message}`;
    }
  };
  const edit = button("Edit input", () => { [input.hidden, plain.hidden, edit.hidden] = [false, true, true]; input.focus(); });
  form.onsubmit = (event) => { event.preventDefault(); approve(); };
  const yes = make("button", { type: "submit", className: "main" }, "Approve");
  const no = button("Reject", () => decide("reject"), "danger");
  form.append(plain, input, make("div", { className: "row" }, note), make("div", { className: "row" }, yes, no, edit));
}
const shapeOf = ({ type, enum: values }) => (type === "boolean" ? { type: "confirm" } : values ? { type: "select" } : {});
function fillReply(form, item) {
  const schema = (item.asks !== "user_message" && item.schema) || {}; // there it is about something else
  const { type, multiSelect, allowCustom, allowNotes, allowDecide, defaultValue } = item.form ?? shapeOf(schema);
  const isFork = item.asks === "fork";
  const notes = isFork && allowNotes !== false ? field("A note for what follows (optional)") : null;
  const send = (body) => form.answer({ ...body, ...(notes?.value.trim() && { notes: notes.value }) });
  const options = (item.options ?? schema.enum?.map((value) => ({ value, label: pretty(value) })) ?? [])
    .filter((each) => each.value !== OTHER);
  const words = Object.assign(field(options.length ? "Or in your own words" : "Your answer"), { value: defaultValue ?? "" });
  const boxes = options.map((each) => make("input", { type: "checkbox", value: each.value }));
  const [row, last] = [0, 1].map(() => make("div", { className: "row" }));
  if (type === "confirm") row.append(button("Yes", () => send({ value: true }), "main"), button("No", () => send({ value: false })));
  else if (multiSelect) form.append(...options.map((each, place) => make("label", { className: "choice" }, boxes[place], each.label)));
  else row.append(...options.map((each) => button(each.label, () => send({ value: each.value }))));
  form.onsubmit = (event) => {
    event.preventDefault();
    const chosen = [...boxes.filter((each) => each.checked), words].map((each) => each.value.trim()).filter(Boolean);
    send(multiSelect ? { value: chosen } : defaultValue && !words.value.trim() ? { value: null } : { text: words.value });
  };
  if (type !== "confirm" && !(type === "select" && !allowCustom)) last.append(words);
  if (last.firstChild || multiSelect) last.append(make("button", { type: "submit", className: "main" }, "Answer"));
  if (item.asks === "ask_user") last.append(button("Do not answer", () => form.answer({ cancel: true })));
  if (isFork && allowDecide) last.append(button("Let the agent decide", () => form.answer({ decide: true })));
  if (isFork) last.append(button("Cancel the run", () => form.answer({ cancel: true }), "danger"));
  form.append(...(notes ? [make("div", { className: "row" }, notes)] : []), row, last);
}
const painted = new Map(); // item -> its node
let isPlanned = false;
const paintSoon = () => { if (!isPlanned) setTimeout(() => keepEnd(paint), 16); isPlanned = true; };
function paint() {
  isPlanned = false;
  const [{ items, state }, log] = [at.view, byId("log")];
  for (const [item, node] of painted) if (!items.includes(item)) { node.remove(); painted.delete(item); }
  items.forEach((item, place) => {
    const old = painted.get(item);
    const grows = old && (item.kind === "text" || item.kind === "thinking");
    const node = grows || old?.rev === item.rev ? old : painters[item.kind](item);
    if (grows && old.rev !== item.rev) old.lastChild.textContent = item.text; // keeps open what was opened
    if (old && old !== node) old.replaceWith(node);
    painted.set(item, node).get(item).rev = item.rev;
    if (item.kind === "thinking") node.hidden = !item.text && !(state === "working" && place === items.length - 1);
    if (log.children[place] !== node) log.insertBefore(node, log.children[place] ?? null);
  });
  log.setAttribute("aria-busy", String(state === "working"));
  show("welcome", items.length === 0);
  show("stop", state !== "idle");
  show("send", state === "idle");
}

// ---- what a person does --------------------------------------------------------------------------
const option = (value, label, chosen) => make("option", { value, selected: value === chosen }, label);
async function listConversations() {
  const { conversations } = await read(chat("/conversations?limit=50")).catch(() => ({ conversations: [] }));
  const list = [{ id: "", title: "New conversation" }, ...conversations];
  byId("conversation").replaceChildren(...list.map((each) => option(each.id, each.title, at.conversation ?? "")));
}

/** Show the agent and the conversation that the address names: #agent/conversation. */
async function open() {
  at.stream?.cut?.abort();
  clearTimeout(at.again);
  const view = newView();
  Object.assign(at, { stream: null, view });
  try {
    const { agents } = await read("api/agents?limit=200").catch(ofLink);
    if (view !== at.view) return;
    show("key", false);
    const [name, conversation] = location.hash.slice(1).split("/").map(decodeURIComponent);
    if (conversation && !agents.some((each) => each.id === name)) agents.push({ id: name, name, description: GONE });
    tell(agents.length ? "" : "This project has no agent yet.");
    if (!agents.length) return;
    const agent = [name, "assistant"].map((id) => agents.find((each) => each.id === id)).find(Boolean) ?? agents[0];
    Object.assign(at, { agent: agent.id, conversation: conversation || null });
    byId("agent").replaceChildren(...agents.map((each) => option(each.id, each.name, agent.id)));
    [byId("who").textContent, byId("does").textContent] = [agent.name, agent.description];
    await Promise.all([listConversations(), listTools(), at.conversation && remember(view)]);
  } catch (error) {
    if (view !== at.view) return;
    tell(isAway(error) ? AWAY : said(error));
    if (isAway(error)) at.again = setTimeout(open, PATIENCE.at(-1));
  }
  keepEnd(paint);
}
/** Who came by a link of /web has one conversation, and sees no lists: its agent is that of the address. */
function ofLink(error) {
  const [name, conversation] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (error.status !== 404 || !conversation) throw error;
  return { agents: [{ id: name, name, description: "" }] };
}
async function remember(view) {
  const { messages, meta } = await read(chat(`?${new URLSearchParams({ conversationId: at.conversation, limit: 200 })}`));
  if (view !== at.view) return;
  for (const each of messages) recall(view, each);
  if (meta.hasMore) tell("Only the newest messages are shown.");
  if (view.items.at(-1)?.kind !== "user") return;
  view.state = "working"; // what was said last is being answered
  follow();
}
async function listTools() {
  const { tools } = await read(chat("/tools")).catch(() => ({ tools: [] }));
  const choose = ({ name }) => { byId("content").value = `${name} `; byId("content").focus(); };
  byId("tools").replaceChildren(...tools.map((each) => make("button", { type: "button", title: each.description, onclick: () => choose(each) }, each.name)));
  show("hint", tools.length > 0);
}
function send(event) {
  event.preventDefault();
  const content = byId("content").value;
  if (!content.trim() || at.view.state !== "idle" || at.agent === null) return;
  byId("content").value = "";
  add(at.view, { kind: "user", id: null, text: content });
  Object.assign(at.view, { state: "working", turn: at.view.items.length, task: null });
  paint();
  document.querySelector("main").scrollTop = 1e9;
  follow({ content, stream: true, ...(at.conversation && { conversationId: at.conversation }) });
}
const stop = () => (at.view.task === null ? tell("The server has not taken the message in yet.")
  : ask(`api/tasks/${encodeURIComponent(at.view.task)}/cancel`, { method: "POST" }).catch((error) => tell(said(error))));
function begin() {
  const go = (agent, conversation = "") => (location.hash = `${encodeURIComponent(agent)}/${conversation}`);
  byId("composer").onsubmit = send;
  byId("content").onkeydown = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && send(event);
  byId("stop").onclick = stop;
  byId("new").onclick = () => { location.hash.endsWith("/") ? open() : go(at.agent); byId("content").focus(); };
  byId("agent").onchange = (event) => go(event.target.value);
  byId("conversation").onchange = (event) => go(at.agent, event.target.value);
  byId("key").onsubmit = (event) => { event.preventDefault(); at.secret = byId("secret").value.trim(); byId("secret").value = ""; open(); };
  window.onhashchange = open;
  open();
}

if (globalThis.document) begin();
