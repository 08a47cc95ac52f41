/** The figures of results/article-c-simulator-2026.json beside ours: which seeds each is taken over, its interval, whether it is met. For the test and for the table of docs/published.md. */

import * as fs from 'node:fs';
import { projectFile } from '../kernel/project.js';
import { medianInterval, type MedianInterval } from '../testbed/analysis/bootstrap.js';
import { measure, publishedPlan, type Figures, type Workload } from './published-plans.js';

export interface Figure {
  readonly workload: Workload;
  readonly queue: string;
  readonly figure: keyof Figures;
  readonly unit: string;
  readonly published: number;
  /** The article gives a bound only. */
  readonly relation?: 'below';
  readonly tolerance: { readonly relative?: number; readonly absolute?: number };
  /** Why ours differs. */
  readonly missed?: string;
}

export const readPublished = <T>(name: string): T => JSON.parse(fs.readFileSync(projectFile('results', `${name}.json`), 'utf8')) as T;
export const articleFigures = (): readonly Figure[] => readPublished<{ readonly figures: readonly Figure[] }>('article-c-simulator-2026').figures;

/** Tails vary widely by seed; the article's medians are of three. */
export const seedsOf = ({ figure }: Figure, tailSeeds: number): number => (figure === 'probeP99' || figure === 'fctP95' ? tailSeeds : 3);
/** In the figure's unit. */
export const allowed = ({ tolerance, published }: Figure): number => Math.max((tolerance.relative ?? 0) * published, tolerance.absolute ?? 0);
export const isMet = (figure: Figure, ours: number): boolean => (figure.relation === 'below' ? ours < figure.published : Math.abs(ours - figure.published) <= allowed(figure));

/** Runs of the set-ups, each made once. */
export class PublishedRuns {
  private readonly known = new Map<string, Figures>();

  private run(workload: Workload, queue: string, seed: number): Figures {
    const key = `${workload} ${queue} ${seed}`;
    const found = this.known.get(key) ?? measure(publishedPlan(queue, workload, seed));
    this.known.set(key, found);
    return found;
  }

  /** Median over seeds 1 … n with its bootstrap interval, in the figure's unit. */
  over({ workload, queue, figure }: Figure, seeds: number): MedianInterval {
    return medianInterval(Array.from({ length: seeds }, (_, i) => this.run(workload, queue, i + 1)[figure]));
  }
}
