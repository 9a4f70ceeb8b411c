Promise.prototype.then = Promise.prototype.catch = Promise.prototype.finally = evil;
