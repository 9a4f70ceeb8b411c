// The console: lines for the task's events, formatted here, cut here, and cut again by the host.
const DIRECTIVE = /%[sdifjoOc%]/g;
let linesLeft, bytesLeft;

function formatted(given) {
  const [first, ...rest] = given;
  if (typeof first !== "string" || rest.length === 0) return given.map((each) => inspected(each)).join(" ");
  const begun = first.replace(DIRECTIVE, (directive) => {
    if (directive === "%%") return "%";
    return rest.length === 0 ? directive : substituted(directive, rest.shift());
  });
  return [begun, ...rest.map((each) => inspected(each))].join(" ");
}

function substituted(directive, value) {
  switch (directive) {
    case "%d": return typeof value === "object" ? "NaN" : String(Number(value));
    case "%i": return String(parseInt(value, 10));
    case "%f": return String(parseFloat(value));
    case "%j": return toJson(value) ?? "undefined";
    case "%c": return "";
    case "%s": return typeof value === "string" ? value : inspected(value);
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
  if (line.length > limits.logLineBytes) line = `${slice(line, 0, limits.logLineBytes - 3)}…`;
  if (linesLeft === 0 || bytesLeft < line.length) {
    linesLeft = -1;
    sayNow("print\n0\nwarning\nconsole output truncated");
    return;
  }
  linesLeft -= 1;
  bytesLeft -= line.length;
  sayNow(`print\n0\n${level}\n${line}`);
}

exposeForGood("console", sealed({
  log: (...given) => print("info", given),
  info: (...given) => print("info", given),
  debug: (...given) => print("info", given),
  warn: (...given) => print("warning", given),
  error: (...given) => print("error", given),
}));
