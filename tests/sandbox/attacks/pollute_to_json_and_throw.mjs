// ends: SCRIPT_ERROR
// says: x
Object.prototype.toJSON = () => "j";
throw new Error("x");
