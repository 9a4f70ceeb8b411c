// ends: TIMEOUT
export function run() {
  for (;;) flo.time.formatUnixTimestamp(0, "YYYY");
}
