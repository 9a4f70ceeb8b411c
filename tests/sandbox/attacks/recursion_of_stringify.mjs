// ends: SCRIPT_ERROR
// seconds: 5
// or, where V8 runs it: success
export function run() {
  let nested = [];
  for (let n = 0; n < 100000; n++) nested = [nested];
  return JSON.stringify(nested).length;
}
