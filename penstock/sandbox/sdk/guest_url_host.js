// Hosts of URLs, after the URL standard: domains, IPv4 in all notations, IPv6.
const FORBIDDEN_IN_HOST = /[\0\t\n\r #/:<>?@[\\\]^|]/;
const FORBIDDEN_IN_DOMAIN = /[\0-\x20#%/:<>?@[\\\]^|\x7F]/;

function parsedHost(input, isSpecial) {
  if (input.startsWith("[")) return input.endsWith("]") ? parsedIpv6(input.slice(1, -1)) : null;
  if (!isSpecial) return FORBIDDEN_IN_HOST.test(input) ? null : percentEncoded(input, isControl);
  const domain = asciiDomain(decodeUtf8(bufferOf(percentDecoded(encodeUtf8(input))), ""));
  if (domain === null || domain === "" || FORBIDDEN_IN_DOMAIN.test(domain)) return null;
  const labels = domain.split(".");
  const last = labels.at(-1) === "" && labels.length > 1 ? labels.at(-2) : labels.at(-1);
  return /^[0-9]+$/.test(last) || /^0x[0-9a-f]*$/.test(last) ? parsedIpv4(labels) : domain;
}

function parsedIpv4(labels) {
  if (labels.at(-1) === "" && labels.length > 1) labels.pop();
  if (labels.length > 4) return null;
  const numbers = labels.map(ipv4Number);
  const last = numbers.pop();
  if (numbers.some((number) => !(number <= 255)) || !(last < 256 ** (4 - numbers.length))) return null;
  let address = last;
  numbers.forEach((number, at) => (address += number * 256 ** (3 - at)));
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join(".");
}

function ipv4Number(label) {
  if (/^0x[0-9a-f]*$/.test(label)) return label.length === 2 ? 0 : parseInt(label, 16);
  if (/^0[0-7]+$/.test(label)) return parseInt(label, 8);
  return /^(0|[1-9][0-9]*)$/.test(label) ? parseInt(label, 10) : NaN;
}

function parsedIpv6(input) {
  const halves = input.split("::");
  if (halves.length > 2) return null;
  const pieces = halves.map((half) => (half === "" ? [] : half.split(":")));
  const embedded = pieces.at(-1).at(-1);
  if (embedded?.includes(".")) {
    const bytes = /^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}$/.test(embedded) ? embedded.split(".").map(Number) : [];
    if (bytes.length !== 4 || bytes.some((byte) => byte > 255)) return null;
    const hex = (at) => (bytes[at] * 256 + bytes[at + 1]).toString(16);
    pieces.at(-1).splice(-1, 1, hex(0), hex(2));
  }
  const given = pieces.flat();
  if (given.some((piece) => !/^[0-9a-fA-F]{1,4}$/.test(piece))) return null;
  if (halves.length === 1 ? given.length !== 8 : given.length > 7) return null;
  const zeros = Array(8 - given.length).fill(0);
  const numbers = [...pieces[0], ...zeros, ...(pieces[1] ?? [])].map((piece) => parseInt(piece, 16));
  return `[${spelledIpv6(numbers)}]`;
}

/** Serialise an address. The first of the longest runs of two or more zeros becomes `::`. */
function spelledIpv6(numbers) {
  let best = { at: -1, size: 1 };
  for (let at = 0; at < 8; at++) {
    let size = 0;
    while (numbers[at + size] === 0) size++;
    if (size > best.size) best = { at, size };
  }
  const hex = numbers.map((number) => number.toString(16));
  if (best.at < 0) return hex.join(":");
  return `${hex.slice(0, best.at).join(":")}::${hex.slice(best.at + best.size).join(":")}`;
}

/** Return a domain in lower case and in ASCII, or null. */
function asciiDomain(domain) {
  if (/^[\0-\x7F]*$/.test(domain)) return domain.toLowerCase();
  const mapped = domain.replace(/[\u3002\uFF0E\uFF61]/g, ".").replace(/\u00AD|\u200B|\u2060|\uFEFF/g, "");
  const labels = mapped.normalize("NFKC").toLowerCase().normalize("NFC").split(".");
  if (labels.some((label) => label.includes("\uFFFD"))) return null;
  return labels.map((label) => (/^[\0-\x7F]*$/.test(label) ? label : `xn--${punycode(label)}`)).join(".");
}

/** RFC 3492. */
function punycode(label) {
  const points = Array.from(label, (character) => character.codePointAt(0));
  let output = points.filter((point) => point < 128).map((point) => String.fromCodePoint(point)).join("");
  const basic = output.length;
  let done = basic, delta = 0, bias = 72, next = 128;
  if (basic > 0) output += "-";
  while (done < points.length) {
    const least = Math.min(...points.filter((point) => point >= next));
    delta += (least - next) * (done + 1);
    next = least;
    for (const point of points) {
      if (point < next) delta += 1;
      if (point !== next) continue;
      output += punycodeNumber(delta, bias);
      bias = punycodeBias(delta, done + 1, done === basic);
      delta = 0;
      done += 1;
    }
    delta += 1;
    next += 1;
  }
  return output;
}

function punycodeNumber(delta, bias) {
  const digit = (value) => String.fromCharCode(value < 26 ? value + 97 : value + 22);
  let output = "", rest = delta;
  for (let k = 36; ; k += 36) {
    const threshold = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
    if (rest < threshold) return output + digit(rest);
    output += digit(threshold + ((rest - threshold) % (36 - threshold)));
    rest = Math.floor((rest - threshold) / (36 - threshold));
  }
}

function punycodeBias(delta, count, isFirst) {
  let rest = Math.floor(delta / (isFirst ? 700 : 2)), k = 0;
  rest += Math.floor(rest / count);
  for (; rest > 455; k += 36) rest = Math.floor(rest / 35);
  return k + Math.floor((36 * rest) / (rest + 38));
}
