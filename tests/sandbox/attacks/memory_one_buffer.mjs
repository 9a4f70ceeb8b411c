// ends: *
export function run() {
  return new ArrayBuffer(2 ** 31).byteLength;
}
