// The same inputs at each run of the tests; FUZZ_SEED=N tries others.
import fc from 'fast-check';

fc.configureGlobal({ seed: Number(process.env.FUZZ_SEED ?? 1) });
