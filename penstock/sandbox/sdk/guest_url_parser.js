// The parser of the URL standard, by parts instead of states: scheme, authority, path, query, fragment.
// Why it is our own: docs/decisions/034.
const PORTS = { __proto__: null, "http:": 80, "https:": 443, "ws:": 80, "wss:": 443, "ftp:": 21, "file:": null };
const HEX = "0123456789ABCDEF";

const isControl = (byte) => byte < 0x20 || byte > 0x7e;
const inSet = (more, below) => {
  const bytes = Array.from(more, (character) => character.charCodeAt(0));
  return (byte) => below(byte) || bytes.includes(byte);
};
const inFragment = inSet(' "<>`', isControl);
const inQuery = inSet(' "#<>', isControl);
const inSpecialQuery = inSet("'", inQuery);
const inPath = inSet("?^`{}", inQuery);
const inUserinfo = inSet("/:;=@[\\]|", inPath);

function percentEncoded(input, isEncoded) {
  let output = "";
  for (const byte of encodeUtf8(wellFormed(input))) {
    output += isEncoded(byte) ? `%${HEX[byte >> 4]}${HEX[byte & 15]}` : String.fromCharCode(byte);
  }
  return output;
}

function percentDecoded(bytes) {
  const output = [];
  for (let at = 0; at < bytes.length; at++) {
    const hex = bytes[at] === 0x25 ? String.fromCharCode(...bytes.subarray(at + 1, at + 3)) : "";
    const isCode = /^[0-9a-fA-F]{2}$/.test(hex);
    output.push(isCode ? parseInt(hex, 16) : bytes[at]);
    if (isCode) at += 2;
  }
  return Uint8Array.from(output);
}

const isSpecial = (url) => url.scheme in PORTS;
const cloned = (url) => ({ ...url, path: isArray(url.path) ? [...url.path] : url.path });

/** Return the parts of a URL, or null. */
function parsedUrl(input, base = null) {
  const cleaned = wellFormed(input).replace(/^[\0-\x20]+|[\0-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
  const [, beforeFragment, fragment] = /^([^#]*)(?:#([^]*))?$/.exec(cleaned);
  const url = withoutFragment(beforeFragment, base, fragment !== undefined);
  if (url !== null) url.fragment = fragment === undefined ? null : percentEncoded(fragment, inFragment);
  return url;
}

function withoutFragment(input, base, hasFragment) {
  const absolute = /^([a-zA-Z][a-zA-Z0-9+.-]*):([^]*)$/.exec(input);
  if (absolute === null) return base === null ? null : relativeTo(input, base, hasFragment);
  const url = emptyUrl(`${absolute[1].toLowerCase()}:`);
  const rest = absolute[2];
  if (url.scheme === "file:") return fileUrl(url, rest, base?.scheme === "file:" ? base : null);
  if (isSpecial(url)) {
    const isRelative = base?.scheme === url.scheme && !/^[/\\]{2}/.test(rest);
    return isRelative ? relativeTo(rest, base, hasFragment) : withAuthority(url, rest.replace(/^[/\\]*/, ""));
  }
  if (rest.startsWith("//")) return withAuthority(url, rest.slice(2));
  const [path, query] = splitQuery(rest);
  if (rest.startsWith("/")) return withPath(url, path, query);
  return { ...url, path: percentEncoded(path, isControl), query: encodedQuery(url, query) };
}

function emptyUrl(scheme) {
  return { scheme, username: "", password: "", host: null, port: null, path: [], query: null, fragment: null };
}

function relativeTo(input, base, hasFragment) {
  if (!isArray(base.path)) return input === "" && hasFragment ? { ...base, fragment: null } : null;
  if (base.scheme === "file:") return fileUrl(emptyUrl("file:"), input, base);
  const url = cloned(base);
  const slashes = isSpecial(base) ? /^[/\\]{2}[/\\]*/ : /^\/\//;
  if (slashes.test(input)) return withAuthority(emptyUrl(base.scheme), input.replace(slashes, ""));
  const [path, query] = splitQuery(input);
  if (path === "") return { ...url, query: query === null ? base.query : encodedQuery(url, query), fragment: null };
  if (/^\//.test(path) || (isSpecial(base) && /^\\/.test(path))) url.path = [];
  else url.path.pop();
  return withPath(url, path, query);
}

function splitQuery(input) {
  const at = input.indexOf("?");
  return at < 0 ? [input, null] : [input.slice(0, at), input.slice(at + 1)];
}

function encodedQuery(url, query) {
  return query === null ? null : percentEncoded(query, isSpecial(url) ? inSpecialQuery : inQuery);
}

function withAuthority(url, input) {
  const end = input.search(isSpecial(url) ? /[/\\?]/ : /[/?]/);
  const authority = end < 0 ? input : input.slice(0, end);
  const at = authority.lastIndexOf("@");
  if (at >= 0) addCredentials(url, authority.slice(0, at));
  const hostAndPort = authority.slice(at + 1);
  if (at >= 0 && hostAndPort === "") return null;
  const [, host, port] = /^((?:\[[^\]]*\]|[^:])*)(?::([^]*))?$/.exec(hostAndPort) ?? [];
  if (host === undefined || (host === "" && (isSpecial(url) || port !== undefined))) return null;
  url.host = host === "" ? "" : parsedHost(host, isSpecial(url));
  if (url.host === null || !addPort(url, port ?? "")) return null;
  const [path, query] = splitQuery(end < 0 ? "" : input.slice(end));
  return withPath(url, path, query);
}

function addCredentials(url, input) {
  const at = input.indexOf(":");
  url.username = percentEncoded(at < 0 ? input : input.slice(0, at), inUserinfo);
  url.password = at < 0 ? "" : percentEncoded(input.slice(at + 1), inUserinfo);
}

function addPort(url, port) {
  if (!/^[0-9]*$/.test(port) || Number(port) > 65535) return false;
  url.port = port === "" || Number(port) === PORTS[url.scheme] ? null : Number(port);
  return true;
}

function fileUrl(url, input, base) {
  const [path, query] = splitQuery(input);
  url.host = "";
  const slashes = /^[/\\]*/.exec(path)[0].length;
  if (slashes >= 2) return fileWithHost(url, path.slice(2), query);
  if (slashes === 1 || base === null) {
    const drive = base?.path[0];
    if (base !== null) url.host = base.host;
    if (isDrive(drive) && !/^.[a-zA-Z][:|](?:[/\\]|$)/.test(path)) url.path = [drive];
    return withPath(url, path, query);
  }
  if (path === "") return { ...cloned(base), query: query === null ? base.query : encodedQuery(url, query), fragment: null };
  const relative = { ...cloned(base), query: null, fragment: null };
  if (/^[a-zA-Z][:|](?:[/\\]|$)/.test(path)) relative.path = [];
  else relative.path.pop();
  return withPath(relative, path, query);
}

function fileWithHost(url, input, query) {
  const end = input.search(/[/\\]/);
  const host = end < 0 ? input : input.slice(0, end);
  if (isDrive(host)) return withPath(url, `/${input}`, query);
  const found = host === "" ? "" : parsedHost(host, true);
  if (found === null) return null;
  url.host = found === "localhost" ? "" : found;
  return withPath(url, end < 0 ? "" : input.slice(end), query);
}

const isDrive = (segment) => segment !== undefined && /^[a-zA-Z][:|]$/.test(segment);

/** Append the segments of a path to the existing ones, and resolve `.` and `..`. */
function withPath(url, path, query) {
  const segments = path.split(isSpecial(url) ? /[/\\]/ : "/");
  if (segments[0] === "") segments.shift();
  const mustBegin = isSpecial(url) || path !== "";
  segments.forEach((segment, at) => {
    const isLast = at === segments.length - 1;
    if (/^(\.|%2e){2}$/i.test(segment)) {
      if (!(url.scheme === "file:" && url.path.length === 1 && isDrive(url.path[0]))) url.path.pop();
      if (isLast) url.path.push("");
    } else if (/^(\.|%2e)$/i.test(segment)) {
      if (isLast) url.path.push("");
    } else if (url.scheme === "file:" && url.path.length === 0 && isDrive(segment)) {
      url.path.push(`${segment[0]}:`);
    } else {
      url.path.push(percentEncoded(segment, inPath));
    }
  });
  if (mustBegin && url.path.length === 0) url.path.push("");
  return { ...url, query: encodedQuery(url, query), fragment: null };
}

function spelledPath(url) {
  return isArray(url.path) ? url.path.map((segment) => `/${segment}`).join("") : url.path;
}

function spelledUrl(url) {
  const credentials = url.username + (url.password === "" ? "" : `:${url.password}`);
  const port = url.port === null ? "" : `:${url.port}`;
  const authority = url.host === null ? "" : `//${credentials === "" ? "" : `${credentials}@`}${url.host}${port}`;
  // Without a host, a path that begins with two slashes would be read as a host.
  const guard = url.host === null && isArray(url.path) && url.path.length > 1 && url.path[0] === "" ? "/." : "";
  const query = url.query === null ? "" : `?${url.query}`;
  return `${url.scheme}${authority}${guard}${spelledPath(url)}${query}${url.fragment === null ? "" : `#${url.fragment}`}`;
}
