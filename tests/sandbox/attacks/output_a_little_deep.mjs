// ends: SCRIPT_ERROR
// says: nested
export function run() {
  let nested = 0;
  for (let n = 0; n < 201; n++) nested = { nested };
  return nested;
}
