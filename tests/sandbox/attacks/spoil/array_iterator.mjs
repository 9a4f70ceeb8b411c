Array.prototype[Symbol.iterator] = function* () { yield "forged"; };
