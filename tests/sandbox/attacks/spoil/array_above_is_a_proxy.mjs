const traps = { __proto__: null, get: evil, set: evil, has: evil, getOwnPropertyDescriptor: evil, defineProperty: evil };
Object.setPrototypeOf(Array.prototype, new Proxy({}, traps));
