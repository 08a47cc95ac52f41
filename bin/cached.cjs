// Runs a bundle with V8's cache of compiled code, which spares a command a third of its start: parsing and compiling
// what it uses. Node has that of its own from 22.1; for earlier ones the cache is kept here, in the user's cache folder,
// one file a build, Node and command, written as the first such command ends well. Where it cannot be kept, nothing is lost but that time.
'use strict';

const fs = require('node:fs');
const module_ = require('node:module');
const os = require('node:os');
const path = require('node:path');
const vm = require('node:vm');

/** As cacheFolder in kernel/project.ts. */
function cacheFolder() {
  const { TESTBED_CACHE: own, XDG_CACHE_HOME: xdg } = process.env;
  return own ? path.resolve(own) : path.join(xdg && path.isAbsolute(xdg) ? xdg : path.join(os.homedir(), '.cache'), 'testbed');
}

function read(file) {
  try {
    return fs.readFileSync(file);
  } catch {
    return undefined; // not there yet
  }
}

/** Of every build and command, 1 to 2 MB each. */
const most = 40;

/** Whole or not at all; the oldest beyond `most` go. */
function write(folder, file, data) {
  const temporary = path.join(folder, `.${path.basename(file)}.${process.pid}`);
  try {
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(temporary, data);
    fs.renameSync(temporary, file);
    const kept = fs.readdirSync(folder).map((name) => path.join(folder, name));
    if (kept.length <= most) return;
    const written = new Map(kept.map((each) => [each, fs.statSync(each).mtimeMs]));
    for (const each of kept.sort((x, y) => written.get(y) - written.get(x)).slice(most)) fs.rmSync(each, { force: true });
  } catch {
    // A full disk, a folder of another user: without the cache, then.
    try {
      fs.unlinkSync(temporary);
    } catch {
      // it was not even begun
    }
  }
}

/** @param folder of the bundle, with its package.json @param entry the file in it, CommonJS @param what of it runs: each keeps its own cache */
exports.run = (folder, entry, what) => {
  const bundle = path.join(folder, entry);
  if (module_.enableCompileCache) {
    module_.enableCompileCache();
    require(bundle);
    return;
  }
  const text = fs.readFileSync(bundle, 'latin1').replace(/^#!.*/, ''); // esbuild writes ASCII
  let file = null;
  let cachedData;
  try {
    // V8 itself compares the source's length and its own version and flags only.
    const { build } = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
    file = path.join(cacheFolder(), 'code', `${build}-${process.version}-${process.arch}-${what}`);
    cachedData = read(file);
  } catch {
    // a user without a home
  }
  const script = new vm.Script(module_.wrap(text), { filename: bundle, ...(cachedData ? { cachedData } : {}) });
  if (file !== null && (!cachedData || script.cachedDataRejected)) {
    process.on('exit', (code) => {
      if (code === 0) write(path.dirname(file), file, script.createCachedData()); // with the functions that were compiled as they ran
    });
  }
  const own = new module_(bundle, null);
  own.filename = bundle;
  own.paths = module_._nodeModulePaths(path.dirname(bundle));
  own.loaded = true;
  script.runInThisContext().call(own.exports, own.exports, module_.createRequire(bundle), own, bundle, path.dirname(bundle));
};
