/** Writes an output whole, or leaves none. */

import type { Output } from './output.js';

export async function closing<T>(output: Output, write: (output: Output) => Promise<T>): Promise<T> {
  try {
    const result = await write(output);
    await output.close();
    return result;
  } catch (error) {
    await output.discard();
    throw error;
  }
}
