// mocha's settings for the files a lane names.
const { spec, ...settings } = require('./mocha.cjs');
module.exports = settings;

// A lane ends with who started it, however that ended (a killed CI job): else it would test on for minutes, unseen.
const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.exit(1); }, 500).unref();
