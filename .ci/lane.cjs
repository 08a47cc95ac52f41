// mocha's settings for the files a lane names.
const { spec, ...settings } = require('./mocha.cjs');
module.exports = settings;
