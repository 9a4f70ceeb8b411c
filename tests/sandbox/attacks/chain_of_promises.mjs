// ends: TIMEOUT
// or, where V8 runs it: OUT_OF_MEMORY
// Each promise waits for the next one, so that none of them is ever let go.
const again = () => Promise.resolve().then(again);
export const run = again;
