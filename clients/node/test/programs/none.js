// A file that is no handler.
module.exports = { handler: 5 };
