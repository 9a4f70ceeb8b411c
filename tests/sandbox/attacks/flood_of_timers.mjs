// ends: SCRIPT_ERROR
// says: timers at once
export function run() {
  for (;;) setTimeout(() => {}, 1000);
}
