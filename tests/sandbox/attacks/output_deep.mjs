// seconds: 5
// ends: SCRIPT_ERROR
export function run() {
  let nested = 0;
  for (let n = 0; n < 200000; n++) nested = [nested];
  return nested;
}
