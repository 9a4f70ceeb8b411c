// Blob, File and FormData. A file of the workspace is only a path: the host reads it when it is sent.
let bytesOfBlob, entriesOfForm, pathOfFile;

class Blob {
  #bytes;
  #type;

  constructor(parts = [], { type = "" } = {}) {
    mustHold(isObject(parts) && parts[Symbol.iterator] !== undefined, `Blob takes an array of parts, found ${kindOf(parts)}`);
    this.#bytes = joined(Array.from(parts, bytesOfPart));
    this.#type = mediaType(type);
  }

  static {
    bytesOfBlob = (blob) => blob.#bytes;
  }

  get size() {
    return this.#bytes.length;
  }

  get type() {
    return this.#type;
  }

  async arrayBuffer() {
    return this.#bytes.slice().buffer;
  }

  async bytes() {
    return this.#bytes.slice();
  }

  async text() {
    return decodeUtf8(bufferOf(this.#bytes), "");
  }

  slice(begin = 0, end = this.size, type = "") {
    return new Blob([this.#bytes.slice(begin, end)], { type });
  }
}

class File extends Blob {
  #name;
  #lastModified;
  #path;

  constructor(parts, name, options = {}, path = undefined) {
    mustHold(name !== undefined, "File takes parts and a name");
    super(parts, options);
    this.#name = wellFormed(String(name));
    this.#lastModified = options.lastModified === undefined ? now() : Number(options.lastModified);
    this.#path = path?.token === RUNTIME_ONLY ? path.path : undefined;
  }

  static {
    pathOfFile = (file) => (#path in file ? file.#path : undefined);
  }

  get name() {
    return this.#name;
  }

  get lastModified() {
    return this.#lastModified;
  }

  async arrayBuffer() {
    refuseReading(this.#path);
    return super.arrayBuffer();
  }

  async bytes() {
    refuseReading(this.#path);
    return super.bytes();
  }

  async text() {
    refuseReading(this.#path);
    return super.text();
  }

  slice(...given) {
    refuseReading(this.#path);
    return super.slice(...given);
  }
}

function refuseReading(path) {
  mustHold(path === undefined, `${path} is read only when fetch sends it; use flo.fs.readBytes`);
}

function bytesOfPart(part) {
  if (part instanceof Blob) {
    if (part instanceof File) refuseReading(pathOfFile(part));
    return bytesOfBlob(part);
  }
  if (part instanceof ArrayBuffer || ArrayBuffer.isView(part)) return bytesOf(part, "Blob").slice();
  return encodeUtf8(wellFormed(String(part)));
}

function mediaType(type) {
  const given = String(type);
  return /^[\x20-\x7E]*$/.test(given) ? given.toLowerCase() : "";
}

class FormData {
  #entries = [];

  constructor(form) {
    mustHold(form === undefined, "FormData takes no argument here: there are no forms");
  }

  static {
    entriesOfForm = (form) => form.#entries;
  }

  append(name, value, filename) {
    this.#entries.push(formEntry(name, value, filename));
  }

  delete(name) {
    this.#entries = this.#entries.filter(([each]) => each !== String(name));
  }

  get(name) {
    return this.#entries.find(([each]) => each === String(name))?.[1] ?? null;
  }

  getAll(name) {
    return this.#entries.filter(([each]) => each === String(name)).map(([, value]) => value);
  }

  has(name) {
    return this.#entries.some(([each]) => each === String(name));
  }

  set(name, value, filename) {
    const entry = formEntry(name, value, filename);
    const at = this.#entries.findIndex(([each]) => each === entry[0]);
    if (at < 0) this.#entries.push(entry);
    else this.#entries = this.#entries.toSpliced(at, 1, entry).filter(([each], place) => place <= at || each !== entry[0]);
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries() {
    for (let at = 0; at < this.#entries.length; at++) yield [...this.#entries[at]];
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
}

function formEntry(name, value, filename) {
  const key = wellFormed(String(name));
  if (!(value instanceof Blob)) return [key, wellFormed(String(value))];
  if (value instanceof File && filename === undefined) return [key, value];
  const path = value instanceof File ? pathOfFile(value) : undefined;
  const options = { type: value.type, lastModified: value.lastModified };
  const parts = path === undefined ? [value] : [];
  return [key, new File(parts, filename ?? "blob", options, { token: RUNTIME_ONLY, path })];
}

expose("Blob", Blob);
expose("File", File);
expose("FormData", FormData);
