// ends: TIMEOUT
for (;;);
export function run() {}
