// fetch: this side gives the request a shape; the host decides, sends and limits.
const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}$/;
const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADERS_OF_HOST = ["host", "content-length", "connection", "transfer-encoding"];
const LARGEST_BODY = 16 * 1024 * 1024;

function fetch_(input, init = {}) {
  members(init, "fetch: init");
  const signal = init.signal ?? undefined;
  wanted(signal === undefined || signal instanceof AbortSignal, 'fetch: "signal" must be an AbortSignal');
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
  wanted(given.body === null || !["GET", "HEAD"].includes(given.method), `fetch: ${given.method} takes no body`);
  if (init.timeout_ms !== undefined) given.timeout_ms = integer(init.timeout_ms, 'fetch: "timeout_ms"', 1, 3600000);
  return ask("fetch", given, { attachments, read: responseOf, signal });
}

function urlOf(input) {
  wanted(typeof input === "string" || input instanceof URL, `fetch takes a URL, found ${kindOf(input)}`);
  const url = parsedUrl(String(input));
  wanted(url !== null, `fetch: ${kindOf(String(input))} is not an absolute URL`);
  wanted(url.scheme === "https:" || url.scheme === "http:", `fetch: the URL must begin with https:// or http://, found ${url.scheme}`);
  url.fragment = null;
  return spelledUrl(url);
}

function methodOf(method) {
  wanted(typeof method === "string" && METHOD.test(method), `fetch: "method" must be the name of a method, found ${kindOf(method)}`);
  const upper = method.toUpperCase();
  wanted(!["CONNECT", "TRACE", "TRACK"].includes(upper), `fetch: the method ${upper} is not allowed`);
  return upper;
}

function headersOf(headers) {
  wanted(isObject(headers) && !isArray(headers), `fetch: "headers" must be a plain object, found ${kindOf(headers)}`);
  return Object.entries(headers).map(([name, value]) => {
    const lower = name.toLowerCase();
    wanted(HEADER.test(name), `fetch: ${kindOf(name)} is not the name of a header`);
    wanted(!HEADERS_OF_HOST.includes(lower), `fetch: the header "${lower}" is set by the host`);
    const spelled = String(value).trim();
    wanted(!/[\0\r\n]/.test(spelled), `fetch: the value of the header "${lower}" has a line break or a NUL`);
    return [lower, spelled];
  });
}

function redirectOf(redirect) {
  wanted(["follow", "manual", "error"].includes(redirect), `fetch: "redirect" must be "follow", "manual" or "error", found ${kindOf(redirect)}`);
  return redirect;
}

function recordOf(record) {
  wanted(typeof record === "boolean", `fetch: "record" must be true or false, found ${kindOf(record)}`);
  return record;
}

function bodyOf(body, headers, attachments) {
  if (body === null) return null;
  if (typeof body === "string") return textBody(wellFormed(body), "text/plain;charset=UTF-8", headers);
  if (body instanceof URLSearchParams) return textBody(String(body), "application/x-www-form-urlencoded;charset=UTF-8", headers);
  if (body instanceof FormData) return { kind: "form", parts: Array.from(body, (entry) => partOf(entry, attachments)) };
  wanted(!(body instanceof Blob), "fetch: a Blob or File is sent inside a FormData");
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return { kind: "bytes", attachment: attached(bytesOf(body, "fetch"), attachments) };
  throw new TypeError(`fetch: "body" must be a string, URLSearchParams, FormData, ArrayBuffer or a typed array, found ${kindOf(body)}; for JSON use JSON.stringify`);
}

function textBody(spelled, type, headers) {
  if (!headers.some(([name]) => name === "content-type")) headers.push(["content-type", type]);
  wanted(spelled.length <= LARGEST_BODY, `fetch: the body has over ${LARGEST_BODY} bytes`);
  return { kind: "text", text: spelled };
}

function partOf([name, value], attachments) {
  if (typeof value === "string") return { name, text: value };
  const part = { name, filename: value.name, type: value.type };
  const path = pathOfFile(value);
  return path === undefined ? { ...part, attachment: attached(bytesOfBlob(value), attachments) } : { ...part, path };
}

function attached(bytes, attachments) {
  wanted(bytes.length <= LARGEST_BODY, `fetch: the body has over ${LARGEST_BODY} bytes`);
  return attachments.push(bufferOf(bytes)) - 1;
}

function responseOf({ status, url, headers, body }, attachments) {
  const bytes = attachments[body.attachment];
  return freeze({
    status,
    ok: status >= 200 && status <= 299,
    url,
    headers: freeze(headers),
    text: async () => decodeUtf8(bufferOf(bytes), "").replace(/^\uFEFF/, ""),
    json: async () => parseJson(decodeUtf8(bufferOf(bytes), "").replace(/^\uFEFF/, "")),
    arrayBuffer: async () => bytes.slice().buffer,
  });
}

const fetchOfScripts = asking(fetch_);
defineProperty(fetchOfScripts, "name", { value: "fetch" });
expose("fetch", fetchOfScripts);
