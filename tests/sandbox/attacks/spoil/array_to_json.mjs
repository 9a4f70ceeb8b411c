Array.prototype.toJSON = () => 5;
