// fetch: the guest checks and normalises the request; the host permits, sends and bounds it.
const METHOD = pattern(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}$/);
const HEADER = pattern(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/);
const BREAK = pattern(/[\0\r\n]/);
// URLs that the parser would not change. Most are such, and parsing one costs 0.3 ms.
const PLAIN_URL = pattern(/^https?:\/\/[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)*(\/(?!\.{1,2}(?:[\/?]|$))[A-Za-z0-9_~!$&()*+,;=:@.-]+)*\/?(\?[A-Za-z0-9_~!$&()*+,;=:@.\/?%-]*)?$/);
const METHODS_OF_HOST = ["CONNECT", "TRACE", "TRACK"];
const HEADERS_OF_HOST = ["host", "content-length", "connection", "transfer-encoding"];
const MAX_BODY_BYTES = 16 * 1024 * 1024;

function fetch_(input, init = {}) {
  members(init, "fetch: init");
  const signal = init.signal ?? undefined;
  mustHold(signal === undefined || signal instanceof AbortSignal, 'fetch: "signal" must be an AbortSignal');
  signal?.throwIfAborted();
  const attachments = [];
  const headers = headersOf(init.headers ?? {});
  const given = {
    url: urlOf(input),
    method: methodOf(init.method ?? "GET"),
    headers,
    body: bodyOf(init.body ?? null, headers, attachments),
    redirect: redirectOf(init.redirect ?? "follow"),
    record: recordOf(init.record ?? true),
  };
  mustHold(given.body === null || (given.method !== "GET" && given.method !== "HEAD"), `fetch: ${given.method} takes no body`);
  if (init.timeout_ms !== undefined) given.timeout_ms = integer(init.timeout_ms, 'fetch: "timeout_ms"', 1, 3600000);
  return ask("fetch", given, { __proto__: null, attachments, read: responseOf, signal });
}

function urlOf(input) {
  mustHold(typeof input === "string" || input instanceof URL, `fetch takes a URL, found ${kindOf(input)}`);
  if (typeof input === "string" && matches(PLAIN_URL, input) && hasPathOf(input)) return input;
  const url = parsedUrl(String(input));
  mustHold(url !== null, `fetch: ${kindOf(String(input))} is not an absolute URL`);
  mustHold(url.scheme === "https:" || url.scheme === "http:", `fetch: the URL must begin with https:// or http://, found ${url.scheme}`);
  url.fragment = null;
  return spelledUrl(url);
}

/** Whether a plain URL has a path; the parser adds a missing one. */
function hasPathOf(url) {
  const host = indexOf(url, "/", 8);
  const query = indexOf(url, "?");
  return host >= 0 && (query < 0 || host < query);
}

function methodOf(method) {
  mustHold(typeof method === "string" && matches(METHOD, method), `fetch: "method" must be the name of a method, found ${kindOf(method)}`);
  const upper = upperCase(method);
  mustHold(!includes(METHODS_OF_HOST, upper), `fetch: the method ${upper} is not allowed`);
  return upper;
}

function headersOf(headers) {
  mustHold(isObject(headers) && !isArray(headers), `fetch: "headers" must be a plain object, found ${kindOf(headers)}`);
  const names = keys(headers), found = [];
  for (let at = 0; at < names.length; at++) append(found, headerOf(names[at], headers[names[at]]));
  return found;
}

function headerOf(name, value) {
  const lower = lowerCase(name);
  mustHold(matches(HEADER, name), `fetch: ${kindOf(name)} is not the name of a header`);
  mustHold(!includes(HEADERS_OF_HOST, lower), `fetch: the header "${lower}" is set by the host`);
  const shown = trim(String(value));
  mustHold(!matches(BREAK, shown), `fetch: the value of the header "${lower}" has a line break or a NUL`);
  return [lower, shown];
}

function redirectOf(redirect) {
  mustHold(redirect === "follow" || redirect === "manual" || redirect === "error", `fetch: "redirect" must be "follow", "manual" or "error", found ${kindOf(redirect)}`);
  return redirect;
}

function recordOf(record) {
  mustHold(typeof record === "boolean", `fetch: "record" must be true or false, found ${kindOf(record)}`);
  return record;
}

function bodyOf(body, headers, attachments) {
  if (body === null) return null;
  if (typeof body === "string") return textBody(wellFormed(body), "text/plain;charset=UTF-8", headers, attachments);
  if (body instanceof URLSearchParams) return textBody(String(body), "application/x-www-form-urlencoded;charset=UTF-8", headers, attachments);
  if (body instanceof FormData) return { kind: "form", parts: partsOfForm(body, attachments) };
  mustHold(!(body instanceof Blob), "fetch: a Blob or File is sent inside a FormData");
  if (body instanceof ArrayBuffer || isView(body)) return { kind: "bytes", attachment: attached(bytesOf(body, "fetch"), attachments) };
  throw new TypeError(`fetch: "body" must be a string, URLSearchParams, FormData, ArrayBuffer or a typed array, found ${kindOf(body)}; for JSON use JSON.stringify`);
}

function textBody(content, type, headers, attachments) {
  let isTyped = false;
  for (let at = 0; at < headers.length; at++) isTyped ||= headers[at][0] === "content-type";
  if (!isTyped) append(headers, ["content-type", type]);
  mustHold(content.length <= MAX_BODY_BYTES, `fetch: the body has over ${MAX_BODY_BYTES} bytes`);
  // A body may be larger than the arguments of a host call: it becomes an attachment.
  if (content.length > MAX_BATCH_CHARS) return { kind: "text", attachment: attached(encodeUtf8(content), attachments) };
  return { kind: "text", text: content };
}

function partsOfForm(form, attachments) {
  const entries = entriesOfForm(form), parts = [];
  for (let at = 0; at < entries.length; at++) append(parts, partOf(entries[at][0], entries[at][1], attachments));
  return parts;
}

function partOf(name, value, attachments) {
  if (typeof value === "string") return { name, text: value };
  const part = { name, filename: value.name, type: value.type };
  const path = pathOfFile(value);
  return path === undefined ? { ...part, attachment: attached(bytesOfBlob(value), attachments) } : { ...part, path };
}

function attached(bytes, attachments) {
  mustHold(sizeOf(bytes) <= MAX_BODY_BYTES, `fetch: the body has over ${MAX_BODY_BYTES} bytes`);
  append(attachments, bufferOf(bytes));
  return attachments.length - 1;
}

function responseOf({ status, url, headers, body }, attachments) {
  const bytes = attachments[body.attachment];
  return freeze({
    status,
    ok: status >= 200 && status <= 299,
    url,
    headers: freeze(headers),
    text: async () => textOfBytes(bytes),
    json: async () => parseJson(textOfBytes(bytes)),
    arrayBuffer: async () => ofArray.buffer(copied(bytes)),
  });
}

const fetchOfScripts = asking(fetch_);
defineProperty(fetchOfScripts, "name", { value: "fetch" });
expose("fetch", fetchOfScripts);
