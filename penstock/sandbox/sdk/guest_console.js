// The console: lines for the events of the task. They are cut here, and again by the host.
const DIRECTIVES = "sdifjoOc%";
let linesLeft, bytesLeft;

function formatted(given) {
  if (given.length === 0) return "";
  const isForm = typeof given[0] === "string" && given.length > 1;
  let line = isForm ? "" : inspected(given[0]);
  let taken = 1, from = 0;
  for (let at = isForm ? indexOf(given[0], "%") : -1; at >= 0; at = indexOf(given[0], "%", from)) {
    const directive = slice(given[0], at + 1, at + 2);
    line += slice(given[0], from, at);
    if (directive === "" || indexOf(DIRECTIVES, directive) < 0) line += `%${directive}`;
    else if (directive === "%") line += "%";
    else line += taken < given.length ? substituted(directive, given[taken++]) : `%${directive}`;
    from = at + 2;
  }
  if (isForm) line += slice(given[0], from);
  for (; taken < given.length; taken++) line += ` ${inspected(given[taken])}`;
  return line;
}

function substituted(directive, value) {
  switch (directive) {
    case "d": return typeof value === "object" ? "NaN" : String(Number(value));
    case "i": return String(parseInt(value, 10));
    case "f": return String(parseFloat(value));
    case "j": return toJson(value) ?? "undefined";
    case "c": return "";
    case "s": return typeof value === "string" ? value : inspected(value);
    default: return inspected(value, 1);
  }
}

function print(level, given) {
  if (linesLeft < 0) return;
  let line;
  try {
    line = wellFormed(formatted(given));
  } catch {
    line = "[a value that cannot be shown]";
  }
  if (line.length * 3 > limits.logLineBytes) line = cutToBytes(line, limits.logLineBytes);
  const size = sizeOf(encodeUtf8(line));
  if (linesLeft === 0 || bytesLeft < size) {
    linesLeft = -1;
    sayNow("print\n0\nwarning\nconsole output truncated");
    return;
  }
  linesLeft -= 1;
  bytesLeft -= size;
  sayNow(`print\n0\n${level}\n${line}`);
}

/** Cut a text to a number of bytes of UTF-8. A text that was cut ends with a mark of three bytes. */
function cutToBytes(line, most) {
  let kept = 0, bytes = 0;
  for (let at = 0; at < line.length;) {
    const code = charCodeAt(line, at);
    const isPair = code >= 0xd800 && code < 0xdc00;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : isPair ? 4 : 3;
    if (bytes > most) return `${slice(line, 0, kept)}…`;
    at += isPair ? 2 : 1;
    if (bytes <= most - 3) kept = at;
  }
  return line;
}

exposeForGood("console", sealed({
  log: (...given) => print("info", given),
  info: (...given) => print("info", given),
  debug: (...given) => print("info", given),
  warn: (...given) => print("warning", given),
  error: (...given) => print("error", given),
}));
