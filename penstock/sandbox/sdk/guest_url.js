// URL and URLSearchParams.
const inForm = (byte) => !/[A-Za-z0-9*\-._]/.test(String.fromCharCode(byte));
let followParams;

class URLSearchParams {
  #pairs = [];
  #changed = () => {};

  constructor(init = "") {
    if (isObject(init)) this.#pairs = pairsOf(init);
    else this.#pairs = parsedForm(String(init).replace(/^\?/, ""));
  }

  static {
    followParams = (params, changed) => {
      params.#changed = changed;
      return (query) => (params.#pairs = parsedForm(query));
    };
  }

  get size() {
    return this.#pairs.length;
  }

  append(name, value) {
    this.#pairs.push([wellFormed(String(name)), wellFormed(String(value))]);
    this.#changed();
  }

  delete(name, value) {
    this.#pairs = this.#pairs.filter((pair) => !isPair(pair, name, value));
    this.#changed();
  }

  get(name) {
    return this.#pairs.find((pair) => isPair(pair, name))?.[1] ?? null;
  }

  getAll(name) {
    return this.#pairs.filter((pair) => isPair(pair, name)).map(([, value]) => value);
  }

  has(name, value) {
    return this.#pairs.some((pair) => isPair(pair, name, value));
  }

  set(name, value) {
    const at = this.#pairs.findIndex((pair) => isPair(pair, name));
    if (at < 0) return this.append(name, value);
    this.#pairs[at][1] = wellFormed(String(value));
    this.#pairs = this.#pairs.filter((pair, place) => place <= at || !isPair(pair, name));
    this.#changed();
  }

  sort() {
    this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    this.#changed();
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries() {
    for (let at = 0; at < this.#pairs.length; at++) yield [...this.#pairs[at]];
  }

  *keys() {
    for (const [name] of this) yield name;
  }

  *values() {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    const spelled = (part) => percentEncoded(part, (byte) => byte !== 0x20 && inForm(byte)).replaceAll(" ", "+");
    return this.#pairs.map(([name, value]) => `${spelled(name)}=${spelled(value)}`).join("&");
  }
}

function pairsOf(init) {
  if (init[Symbol.iterator] === undefined) return Object.entries(init).map(([name, value]) => [name, wellFormed(String(value))]);
  return Array.from(init, (pair) => {
    const parts = Array.from(pair, (part) => wellFormed(String(part)));
    mustHold(parts.length === 2, `URLSearchParams: a pair must have two parts, found ${parts.length}`);
    return parts;
  });
}

function isPair([name, value], searchedName, searchedValue) {
  return name === String(searchedName) && (searchedValue === undefined || value === String(searchedValue));
}

function parsedForm(input) {
  const decoded = (part) => decodeUtf8(bufferOf(percentDecoded(encodeUtf8(wellFormed(part.replaceAll("+", " "))))), "");
  return input.split("&").filter((piece) => piece !== "").map((piece) => {
    const at = piece.indexOf("=");
    return at < 0 ? [decoded(piece), ""] : [decoded(piece.slice(0, at)), decoded(piece.slice(at + 1))];
  });
}

class URL {
  #url;
  #params;
  #readParams;

  constructor(input, base) {
    const parsedBase = base === undefined ? null : parsedUrl(String(base));
    const found = base !== undefined && parsedBase === null ? null : parsedUrl(String(input), parsedBase);
    if (found === null) throw new TypeError(`Invalid URL: ${kindOf(String(input))}`);
    this.#url = found;
    this.#params = new URLSearchParams(found.query ?? "");
    this.#readParams = followParams(this.#params, () => (this.#url.query = String(this.#params) || null));
  }

  static canParse(input, base) {
    return URL.parse(input, base) !== null;
  }

  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }

  get href() {
    return spelledUrl(this.#url);
  }

  set href(value) {
    const found = parsedUrl(String(value));
    if (found === null) throw new TypeError(`Invalid URL: ${kindOf(String(value))}`);
    this.#url = found;
    this.#readParams(found.query ?? "");
  }

  get origin() {
    const { scheme } = this.#url;
    return scheme in PORTS && scheme !== "file:" ? `${scheme}//${this.host}` : "null";
  }

  get protocol() {
    return this.#url.scheme;
  }

  set protocol(value) {
    const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*)(?::|$)/.exec(String(value))?.[1];
    if (scheme === undefined) return;
    const changed = { ...this.#url, scheme: `${scheme.toLowerCase()}:` };
    if (isSpecial(changed) !== isSpecial(this.#url)) return;
    if (changed.port === PORTS[changed.scheme]) changed.port = null;
    this.#url = changed;
  }

  get username() {
    return this.#url.username;
  }

  set username(value) {
    if (this.#url.host) this.#url.username = percentEncoded(String(value), inUserinfo);
  }

  get password() {
    return this.#url.password;
  }

  set password(value) {
    if (this.#url.host) this.#url.password = percentEncoded(String(value), inUserinfo);
  }

  get host() {
    return this.hostname + (this.#url.port === null ? "" : `:${this.#url.port}`);
  }

  set host(value) {
    const [, host, port] = /^(\[[^\]]*\]|[^:/\\?#]*)(?::([0-9]*))?/.exec(String(value));
    this.hostname = host;
    if (port) this.port = port;
  }

  get hostname() {
    return this.#url.host ?? "";
  }

  set hostname(value) {
    const host = isArray(this.#url.path) ? parsedHost(String(value), isSpecial(this.#url)) : null;
    if (host !== null && (host !== "" || !isSpecial(this.#url))) this.#url.host = host;
  }

  get port() {
    return this.#url.port === null ? "" : String(this.#url.port);
  }

  set port(value) {
    const digits = /^[0-9]*/.exec(String(value))[0];
    if (this.#url.host && this.#url.scheme !== "file:" && (digits !== "" || value === "")) addPort(this.#url, digits);
  }

  get pathname() {
    return spelledPath(this.#url);
  }

  set pathname(value) {
    if (!isArray(this.#url.path)) return;
    const { query, fragment } = this.#url;
    const path = String(value).replace(/[\t\n\r]/g, "").replaceAll("?", "%3F").replaceAll("#", "%23");
    this.#url = { ...withPath({ ...this.#url, path: [] }, path.startsWith("/") ? path : `/${path}`, null), query, fragment };
  }

  get search() {
    return this.#url.query ? `?${this.#url.query}` : "";
  }

  set search(value) {
    const query = String(value).replace(/^\?/, "").replaceAll("#", "%23");
    this.#url.query = String(value) === "" ? null : encodedQuery(this.#url, query);
    this.#readParams(this.#url.query ?? "");
  }

  get searchParams() {
    return this.#params;
  }

  get hash() {
    return this.#url.fragment ? `#${this.#url.fragment}` : "";
  }

  set hash(value) {
    const fragment = String(value).replace(/^#/, "");
    this.#url.fragment = String(value) === "" ? null : percentEncoded(fragment, inFragment);
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }
}

expose("URL", URL);
expose("URLSearchParams", URLSearchParams);
