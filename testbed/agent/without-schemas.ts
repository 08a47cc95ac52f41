/**
 * Stands in for zod in the agent's bundle (esbuild --alias:zod=./testbed/agent/without-schemas.ts): the agent runs
 * plans that were validated where they were made, so its schemas are declared and never used. Leaving zod out
 * takes 750 kB and a third of the start-up time from every run.
 */

const schema: unknown = new Proxy(function declared() { /* a schema, or what makes one */ }, {
  get: (_target, name) => {
    if (typeof name === 'string' && /^(safe)?parse(Async)?$/i.test(name)) throw new Error('the agent has no schemas: plans are validated before it gets them');
    if (name === Symbol.toPrimitive) return () => '';
    return schema;
  },
  apply: () => schema,
});
export const z = schema;
export default schema;
