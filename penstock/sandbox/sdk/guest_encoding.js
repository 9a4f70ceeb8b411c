// Text and bytes: only UTF-8. The host converts, because it does so a hundred times faster.

class TextEncoder {
  get encoding() {
    return "utf-8";
  }

  encode(input = "") {
    return encodeUtf8(wellFormed(String(input)));
  }

  encodeInto(source, destination) {
    mustHold(destination instanceof Uint8Array, "encodeInto: the destination must be a Uint8Array");
    let read = 0, written = 0;
    for (const character of wellFormed(String(source))) {
      const bytes = encodeUtf8(character);
      if (written + bytes.length > destination.length) break;
      destination.set(bytes, written);
      read += character.length;
      written += bytes.length;
    }
    return { read, written };
  }
}

const NAMES_OF_UTF8 = ["utf-8", "utf8", "unicode-1-1-utf-8", "unicode11utf8", "unicode20utf8", "x-unicode20utf8"];

class TextDecoder {
  #fatal;
  #ignoreBom;
  #kept = new Uint8Array();
  #hasStarted = false;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!NAMES_OF_UTF8.includes(String(label).trim().toLowerCase())) {
      throw new RangeError(`TextDecoder: only utf-8 is there, found ${kindOf(label)}`);
    }
    this.#fatal = Boolean(fatal);
    this.#ignoreBom = Boolean(ignoreBOM);
  }

  get encoding() {
    return "utf-8";
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBom;
  }

  decode(input = new Uint8Array(), { stream = false } = {}) {
    const bytes = joined([this.#kept, bytesOf(input, "TextDecoder.decode")]);
    const whole = stream ? bytes.length - unfinished(bytes) : bytes.length;
    this.#kept = bytes.slice(whole);
    const found = decodeUtf8(bufferOf(bytes.subarray(0, whole)), this.#fatal ? "fatal" : "");
    if (found === null) throw new TypeError("TextDecoder: the bytes are not UTF-8");
    const hasMark = !this.#ignoreBom && !this.#hasStarted && found.startsWith("\uFEFF");
    this.#hasStarted = stream && (this.#hasStarted || found.length > 0);
    return hasMark ? found.slice(1) : found;
  }
}

/** Return the number of bytes at the end that begin an incomplete character. */
function unfinished(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? back : 0;
  }
  return 0;
}

/** Return the bytes of an ArrayBuffer or a view. */
function bytesOf(source, what) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  mustHold(isView(source), `${what} takes an ArrayBuffer or a view of one, found ${kindOf(source)}`);
  const { buffer, start, size } = source instanceof DataView ? ofDataView : ofArray;
  return new Uint8Array(buffer(source), start(source), size(source));
}

const partsOf = (owner) => ({ __proto__: null, buffer: getter(owner, "buffer"), start: getter(owner, "byteOffset"), size: getter(owner, "byteLength") });
const ofArray = partsOf(VIEW), ofDataView = partsOf(DataView.prototype);
const sizeOf = ofArray.size;
const setBytes = uncurried(VIEW.set);

/** Return an ArrayBuffer with exactly these bytes: only such a buffer is passed to the host. */
function bufferOf(bytes) {
  const buffer = ofArray.buffer(bytes);
  const whole = ofArray.start(bytes) === 0 && sizeOf(bytes) === sizeOfBuffer(buffer);
  return whole ? buffer : ofArray.buffer(copied(bytes));
}

function copied(bytes) {
  const copy = new Uint8Array(sizeOf(bytes));
  setBytes(copy, bytes);
  return copy;
}

/** Decode bytes as UTF-8, without a byte order mark. */
function textOfBytes(bytes) {
  const text = decodeUtf8(bufferOf(bytes), "");
  return text[0] === "\uFEFF" ? slice(text, 1) : text;
}

function joined(pieces) {
  const all = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

expose("TextEncoder", TextEncoder);
expose("TextDecoder", TextDecoder);
