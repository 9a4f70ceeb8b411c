// How the console shows a value: close to what Node shows, on one line, and never running a getter.
const DEEPEST = 4;
const MOST_ITEMS = 100;
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

function inspected(value, depth = 0, above = []) {
  switch (typeof value) {
    case "string": return depth === 0 ? value : toJson(value);
    case "bigint": return `${value}n`;
    case "symbol": return String(value);
    case "function": return `[Function: ${value.name || "(anonymous)"}]`;
    case "object": break;
    default: return Object.is(value, -0) ? "-0" : String(value);
  }
  if (value === null) return "null";
  if (above.includes(value)) return "[Circular]";
  if (value instanceof Error) return inspectedError(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  if (value instanceof RegExp) return String(value);
  if (value instanceof Promise) return "Promise {}";
  if (depth >= DEEPEST) return isArray(value) ? "[Array]" : "[Object]";
  return inspectedMembers(value, (member) => inspected(member, depth + 1, [...above, value]));
}

function inspectedError(error) {
  const title = `${error.name}: ${error.message}`;
  const frames = typeof error.stack === "string" ? framesOfScript(error.stack) : "";
  return frames === "" ? title : `${title}\n${frames}`;
}

function framesOfScript(stack) {
  const isOurs = (line) => line.includes("(flo:") || line.includes("(native)");
  return stack.split("\n").filter((line) => line !== "" && !isOurs(line)).join("\n");
}

function inspectedMembers(value, show) {
  const name = value.constructor?.name;
  if (isArray(value)) return enclosed("[", listed(value, show), "]");
  if (ArrayBuffer.isView(value)) return `${name}(${value.length}) ${enclosed("[", listed([...value.slice(0, MOST_ITEMS + 1)], show), "]")}`;
  if (value instanceof ArrayBuffer) return `ArrayBuffer { byteLength: ${value.byteLength} }`;
  if (value instanceof Map) return `Map(${value.size}) ${enclosed("{", listed([...value], ([key, item]) => `${show(key)} => ${show(item)}`), "}")}`;
  if (value instanceof Set) return `Set(${value.size}) ${enclosed("{", listed([...value], show), "}")}`;
  if (value instanceof URL || value instanceof URLSearchParams) return String(value);
  const title = name === undefined ? "[Object: null prototype] " : name === "Object" ? "" : `${name} `;
  return title + enclosed("{", listed(Reflect.ownKeys(value).filter(isShown, value), (key) => member(value, key, show)), "}");
}

function isShown(key) {
  return Object.prototype.propertyIsEnumerable.call(this, key);
}

function member(value, key, show) {
  const property = getOwnPropertyDescriptor(value, key);
  const spelled = typeof key === "symbol" ? `[${String(key)}]` : IDENTIFIER.test(key) ? key : toJson(key);
  const shown = hasOwn(property, "value") ? show(property.value) : property.get ? "[Getter]" : "[Setter]";
  return `${spelled}: ${shown}`;
}

function listed(items, show) {
  const shown = items.slice(0, MOST_ITEMS).map((item) => show(item));
  if (items.length > MOST_ITEMS) shown.push(`… ${items.length - MOST_ITEMS} more`);
  return shown;
}

function enclosed(open, shown, close) {
  return shown.length === 0 ? open + close : `${open} ${shown.join(", ")} ${close}`;
}
