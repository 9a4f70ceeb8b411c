// Formats values for the console: similar to Node, on one line, and without running getters.
const MAX_DEPTH = 4;
const MAX_ITEMS = 100;
const IDENTIFIER = pattern(/^[A-Za-z_$][\w$]*$/);
const VIEW = getPrototypeOf(Uint8Array.prototype);
const isEnumerable = uncurried(Object.prototype.propertyIsEnumerable);
const getter = (owner, name) => uncurried(getOwnPropertyDescriptor(owner, name).get);
const lengthOfView = getter(VIEW, "length");
const sizeOfBuffer = getter(ArrayBuffer.prototype, "byteLength");
const sizeOfMap = getter(Map.prototype, "size");
const sizeOfSet = getter(Set.prototype, "size");
const eachOfMap = uncurried(Map.prototype.forEach);
const eachOfSet = uncurried(Set.prototype.forEach);
const timeOf = uncurried(Date.prototype.getTime);
const isoOf = uncurried(Date.prototype.toISOString);
const textOfPattern = uncurried(RegExp.prototype.toString);
const textOfSymbol = uncurried(Symbol.prototype.toString);
const { isView } = ArrayBuffer;
const isSame = Object.is;

function inspected(value, depth = 0, above = []) {
  switch (typeof value) {
    case "string": return depth === 0 ? value : toJson(value);
    case "bigint": return `${value}n`;
    case "symbol": return textOfSymbol(value);
    case "function": return `[Function: ${value.name || "(anonymous)"}]`;
    case "object": break;
    default: return isSame(value, -0) ? "-0" : `${value}`;
  }
  if (value === null) return "null";
  if (includes(above, value)) return "[Circular]";
  if (value instanceof Error) return inspectedError(value);
  if (value instanceof Date) return isNaNumber(timeOf(value)) ? "Invalid Date" : isoOf(value);
  if (value instanceof RegExp) return textOfPattern(value);
  if (value instanceof Promise) return "Promise {}";
  if (depth >= MAX_DEPTH) return isArray(value) ? "[Array]" : "[Object]";
  const below = withFirst(value, above);
  return inspectedMembers(value, (member) => inspected(member, depth + 1, below));
}

const isNaNumber = (number) => number !== number;

function inspectedError(error) {
  const title = `${error.name}: ${error.message}`;
  const frames = typeof error.stack === "string" ? framesOfScript(error.stack) : "";
  return frames === "" ? title : `${title}\n${frames}`;
}

function framesOfScript(stack) {
  let kept = "";
  for (let from = 0; from <= stack.length; ) {
    const found = indexOf(stack, "\n", from);
    const end = found < 0 ? stack.length : found;
    const line = slice(stack, from, end);
    const isOurs = line === "" || indexOf(line, "(flo:") >= 0 || indexOf(line, "(native)") >= 0;
    if (!isOurs) kept += kept === "" ? line : `\n${line}`;
    from = end + 1;
  }
  return kept;
}

function inspectedMembers(value, show) {
  const name = value.constructor?.name;
  if (isArray(value)) return enclosed("[", listed(value, value.length, show), "]");
  if (isView(value) && !(value instanceof DataView)) {
    const size = lengthOfView(value);
    return `${name}(${size}) ${enclosed("[", listed(value, size, show), "]")}`;
  }
  if (value instanceof ArrayBuffer) return `ArrayBuffer { byteLength: ${sizeOfBuffer(value)} }`;
  if (value instanceof Map) return `Map(${sizeOfMap(value)}) ${enclosed("{", collected(eachOfMap, value, sizeOfMap(value), (item, key) => `${show(key)} => ${show(item)}`), "}")}`;
  if (value instanceof Set) return `Set(${sizeOfSet(value)}) ${enclosed("{", collected(eachOfSet, value, sizeOfSet(value), show), "}")}`;
  if (value instanceof URL || value instanceof URLSearchParams) return String(value);
  const title = name === undefined ? "[Object: null prototype] " : name === "Object" ? "" : `${name} `;
  const all = ownKeys(value), shown = [];
  for (let at = 0; at < all.length; at++) if (isEnumerable(value, all[at])) append(shown, all[at]);
  return title + enclosed("{", listed(shown, shown.length, (key) => member(value, key, show)), "}");
}

function member(value, key, show) {
  const property = getOwnPropertyDescriptor(value, key);
  const name = typeof key === "symbol" ? `[${textOfSymbol(key)}]` : matches(IDENTIFIER, key) ? key : toJson(key);
  const shown = hasOwn(property, "value") ? show(property.value) : property.get ? "[Getter]" : "[Setter]";
  return `${name}: ${shown}`;
}

/** Return the first items of a list, separated by commas. */
function listed(items, count, show) {
  let shown = "";
  for (let at = 0; at < count && at < MAX_ITEMS; at++) shown += `${at === 0 ? "" : ", "}${show(items[at])}`;
  return count > MAX_ITEMS ? `${shown}, … ${count - MAX_ITEMS} more` : shown;
}

/** Return the first items of a Map or Set. */
function collected(each, items, count, show) {
  const found = [];
  each(items, (item, key) => {
    if (found.length < MAX_ITEMS) append(found, show(item, key));
  });
  const shown = listed(found, found.length, (text) => text);
  return count > MAX_ITEMS ? `${shown}, … ${count - MAX_ITEMS} more` : shown;
}

function enclosed(open, shown, close) {
  return shown === "" ? open + close : `${open} ${shown} ${close}`;
}
