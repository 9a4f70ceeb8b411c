// Randomness, which repeats in every entry of one call: it comes from the seed of the call. No random
// value may be drawn before the memory image is taken, or all calls would share it.
const ALGORITHMS = ["SHA-1", "SHA-256", "SHA-384", "SHA-512"];
const MAX_RANDOM = 65536;
let stateA, stateB, stateC, stateD;

function seedRandom([a, b, c, d]) {
  [stateA, stateB, stateC, stateD] = [a, b, c, d];
}

/** Return 32 bits of sfc32, a small generator that is good enough for Math.random. */
function next32Bits() {
  const drawn = (((stateA + stateB) | 0) + stateD) | 0;
  stateD = (stateD + 1) | 0;
  stateA = stateB ^ (stateB >>> 9);
  stateB = (stateC + (stateC << 3)) | 0;
  stateC = ((stateC << 21) | (stateC >>> 11)) + drawn | 0;
  return drawn >>> 0;
}

defineProperty(Math, "random", {
  value: function random() {
    return ((next32Bits() >>> 5) * 67108864 + (next32Bits() >>> 6)) / 9007199254740992;
  },
});

exposeForGood("crypto", sealed({
  randomUUID: () => {
    const bytes = randomBytes("16");
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = bytes.toHex();
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  },
  getRandomValues: (array) => {
    const holds = ArrayBuffer.isView(array) && !(array instanceof DataView) && !/Float/.test(array.constructor.name);
    mustHold(holds, `crypto.getRandomValues takes an array of integers such as Uint8Array, found ${kindOf(array)}`);
    // Read by the captured getter: a script may define another `byteLength` on the array.
    const size = sizeOf(array);
    if (size > MAX_RANDOM) throw new DOMException(`at most ${MAX_RANDOM} bytes at once`, "QuotaExceededError");
    setBytes(new Uint8Array(ofArray.buffer(array), ofArray.start(array), size), randomBytes(`${size}`));
    return array;
  },
  subtle: sealed({
    digest: asking(async (algorithm, source) => {
      const name = String(algorithm?.name ?? algorithm).toUpperCase();
      if (!ALGORITHMS.includes(name)) throw new DOMException(`the algorithm must be one of ${ALGORITHMS.join(", ")}, found ${kindOf(name)}`, "NotSupportedError");
      return digest(bufferOf(bytesOf(source, "crypto.subtle.digest")), name).buffer;
    }),
  }),
}));

// The clock moves only with deliveries of the host: it is the clock of the call.
exposeForGood("performance", sealed({ now: () => now() - startedAt }));
