Function.prototype.call = Function.prototype.apply = Function.prototype.bind = Function.prototype.toString = evil;
