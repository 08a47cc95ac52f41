/**
 * Plots as SVG text, small enough to write by hand: loading a plotting library takes longer than analysing a small run.
 * Colours are CSS variables of the page (page.ts), so one drawing serves light and dark; series also differ by dash. Every plot
 * is drawn 420 units wide, about its size on a phone and in a three-column page, so its text is never tiny.
 */

export const escapeHtml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

export interface Series {
  readonly name: string;
  /** Which of the page's series colours; series of one colour are one entry in the legend. */
  readonly colour: number;
  readonly points: readonly (readonly [number, number | null])[];
  /** x, low, high. */
  readonly band?: readonly (readonly [number, number, number])[];
  readonly thin?: boolean;
  /** Drawn as steps, the value holding from its x to the next. */
  readonly step?: boolean;
}
export interface Axis {
  readonly label: string; readonly min?: number; readonly max?: number;
  /** Logarithmic; values must be above 0. */
  readonly log?: boolean;
}
/** A moment at which something changed: a vertical line with a word. */
export interface Mark { readonly at: number; readonly label: string }
export interface LinePlot {
  readonly title: string;
  readonly caption?: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly series: readonly Series[];
  /** Shaded: outside the measurement window. */
  readonly outside?: readonly (readonly [number, number])[];
  readonly marks?: readonly Mark[];
}

const width = 420;
const height = 268;
const left = 58;
const right = 10;
const top = 10;
const bottom = 40;

export const colours = 8;
const stroke = (index: number): string => `var(--s${(index % colours) + 1})`;
const dashes = ['', '6 3', '2 2', '8 3 2 3'];
const dash = (index: number): string => {
  const pattern = dashes[Math.floor(index / colours) % dashes.length]!;
  return pattern === '' ? '' : ` stroke-dasharray="${pattern}"`;
};
const px = (value: number): string => String(Math.round(value * 10) / 10);

/** Round numbers that cover [min, max], about `count` of them. */
export function ticks(min: number, max: number, count = 5): number[] {
  const span = max - min;
  if (!(span > 0) || !Number.isFinite(span)) return [min];
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999) ?? 10 * power;
  const values: number[] = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i++) values.push(Number((i * step).toPrecision(12)));
  return values;
}

/** Powers of ten in [min, max], with 2 and 5 times them while that is at most eight. */
export function logTicks(min: number, max: number): number[] {
  const of = (factors: readonly number[]): number[] => {
    const values: number[] = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power++) for (const factor of factors) values.push(Number((factor * 10 ** power).toPrecision(6)));
    return values.filter((value) => value >= min * 0.999 && value <= max * 1.001);
  };
  return [[1, 2, 5], [1, 3], [1]].map(of).find((values) => values.length <= 8) ?? of([1]);
}

/** Where a logarithmic axis of delays begins at the lowest, ms. */
export const shortestShown = 0.01;

/** Whether values of one figure are so far apart that only a logarithmic axis shows them all: more than 10 ×, all above 0. */
export const farApart = (values: readonly number[]): boolean => values.length > 1 && Math.min(...values) > 0 && Math.max(...values) > 10 * Math.min(...values);

export function formatTick(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  return trim(value);
}
const trim = (value: number): string => String(Number(value.toPrecision(4)));

interface Range { readonly label: string; min: number; max: number; readonly log: boolean }

/** Place of a value between the ends of its axis, 0 … 1. */
function place({ min, max, log }: Range, value: number): number {
  if (log) return Math.log(Math.max(value, min) / min) / Math.log(max / min);
  return (value - min) / (max - min || 1);
}
const ticksOf = (range: Range, count: number): number[] => (range.log ? logTicks(range.min, range.max) : ticks(range.min, range.max, count));

interface Frame { readonly x: (value: number) => number; readonly y: (value: number) => number; readonly axes: string; /** Drawn over the data. */ readonly marks: string }

function frame(x: Range, y: Range, outside: readonly (readonly [number, number])[] = [], allMarks: readonly Mark[] = []): Frame {
  const scaleX = (value: number): number => left + place(x, value) * (width - left - right);
  const { rows: markRows, placed } = placeMarks(allMarks.filter(({ at }) => at >= x.min && at <= x.max), scaleX);
  const upper = top + markRows * markRow;
  const scaleY = (value: number): number => height - bottom - place(y, value) * (height - upper - bottom);
  const parts: string[] = [];
  for (const [from, to] of outside) {
    const a = scaleX(Math.max(x.min, from));
    const b = scaleX(Math.min(x.max, to));
    if (b > a) parts.push(`<rect class="outside" x="${px(a)}" y="${upper}" width="${px(b - a)}" height="${height - upper - bottom}"/>`);
  }
  for (const value of ticksOf(y, 5)) {
    const at = px(scaleY(value));
    parts.push(`<path class="grid" d="M${left} ${at}H${width - right}"/><text class="tick" x="${left - 6}" y="${at}" dy=".34em" text-anchor="end">${formatTick(value)}</text>`);
  }
  for (const value of ticksOf(x, 6)) {
    if (x.log) parts.push(`<path class="grid" d="M${px(scaleX(value))} ${upper}V${height - bottom}"/>`);
    parts.push(`<text class="tick" x="${px(scaleX(value))}" y="${height - bottom + 16}" text-anchor="middle">${formatTick(value)}</text>`);
  }
  parts.push(`<path class="axis" d="M${left} ${upper}V${height - bottom}H${width - right}"/>`);
  parts.push(`<text class="label" x="${(left + width - right) / 2}" y="${height - 5}" text-anchor="middle">${escapeHtml(x.label)}</text>`);
  parts.push(`<text class="label" transform="translate(11 ${(upper + height - bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeHtml(y.label)}</text>`);
  const marks = placed.map(({ at, label, row, before }) => `<path class="mark" d="M${px(at)} ${row === null ? upper : top + row * markRow}V${height - bottom}"><title>${escapeHtml(label)}</title></path>`
    + (row === null ? '' : `<text class="mark-label" x="${px(at + (before ? -4 : 4))}" y="${top + row * markRow + 8}" text-anchor="${before ? 'end' : 'start'}">${escapeHtml(shortened(label))}</text>`)).join('');
  return { x: scaleX, y: scaleY, axes: parts.join(''), marks };
}

/** Height of a row of words above a plot. */
const markRow = 13;
/** Most that get a word; more are lines only (the page lists them all). */
const mostLabels = 8;
const mostRows = 4;
const shortened = (label: string): string => (label.length > 30 ? `${label.slice(0, 29)}…` : label);

interface PlacedMark { readonly at: number; readonly label: string; /** null: a line without its word. */ readonly row: number | null; readonly before: boolean }

/** Each word to the right of its line, or to the left near the edge, above the plot in the first row in which it does not run into another. */
function placeMarks(marks: readonly Mark[], x: (value: number) => number): { readonly rows: number; readonly placed: readonly PlacedMark[] } {
  const taken: number[] = Array.from({ length: mostRows }, () => -Infinity);
  let rows = 0;
  const placed = marks.map(({ at: value, label }): PlacedMark => {
    const at = x(value);
    if (marks.length > mostLabels) return { at, label, row: null, before: false };
    const wide = shortened(label).length * 6.2 + 8;
    const before = at + wide > width - right;
    const [from, to] = before ? [at - wide, at] : [at, at + wide];
    const row = taken.findIndex((end) => end <= from);
    if (row < 0) return { at, label, row: null, before };
    taken[row] = to;
    rows = Math.max(rows, row + 1);
    return { at, label, row, before };
  });
  return { rows, placed };
}

/** A range that shows all values; never empty. */
function range(values: Iterable<number>, axis: Axis): Range {
  let min = Infinity;
  let max = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  if (min > max) [min, max] = [0, 1];
  min = axis.min ?? min;
  max = axis.max ?? max;
  if (!(max > min)) max = min + (min === 0 ? 1 : Math.abs(min) * 0.1);
  return { label: axis.label, min, max, log: (axis.log ?? false) && min > 0 };
}

const figure = (title: string, caption: string | undefined, legend: string, svg: string): string =>
  `<figure><figcaption><h3>${escapeHtml(title)}</h3>${caption === undefined ? '' : `<p>${escapeHtml(caption)}</p>`}</figcaption>${svg}${legend}</figure>`;

function legendOf(entries: readonly { readonly name: string; readonly colour: number }[]): string {
  const unique = entries.filter((entry, index) => entries.findIndex((other) => other.colour === entry.colour && other.name === entry.name) === index);
  if (unique.length === 0) return '';
  return `<ul class="legend">${unique.map(({ name, colour }) =>
    `<li><svg viewBox="0 0 24 8" aria-hidden="true"><path d="M0 4H24" fill="none" style="stroke:${stroke(colour)}" stroke-width="3"${dash(colour)}/></svg>${escapeHtml(name)}</li>`).join('')}</ul>`;
}

/** @returns '' when there is nothing to draw */
export function linePlot(plot: LinePlot): string {
  // A single point draws no line.
  const drawn = plot.series.filter((series) => series.points.filter(([, y]) => y !== null && Number.isFinite(y)).length > 1);
  if (drawn.length === 0) return '';
  const xs = range(drawn.flatMap((series) => series.points.map(([x]) => x)), plot.x);
  const ys = range((function* values() {
    for (const series of drawn) {
      for (const [, y] of series.points) if (y !== null) yield y;
      for (const [, low, high] of series.band ?? []) { yield low; yield high; }
    }
  })(), plot.y);
  if (plot.y.max === undefined) ys.max = ys.log ? ys.max * 1.1 : ys.max + (ys.max - ys.min) * 0.04;
  const { x, y, axes, marks } = frame(xs, ys, plot.outside, plot.marks);
  const parts: string[] = [];
  for (const series of drawn) {
    if (series.band !== undefined && series.band.length > 1) {
      const upper = series.band.map(([at, , high]) => `${px(x(at))} ${px(y(high))}`);
      const lower = [...series.band].reverse().map(([at, low]) => `${px(x(at))} ${px(y(low))}`);
      parts.push(`<path d="M${upper.join('L')}L${lower.join('L')}Z" style="fill:${stroke(series.colour)}" class="band"/>`);
    }
  }
  for (const series of drawn) {
    let path = '';
    let pen = false;
    let previous = 0;
    for (const [at, value] of series.points) {
      if (value === null || !Number.isFinite(value)) { pen = false; continue; }
      if (pen && series.step) path += `L${px(x(at))} ${px(y(previous))}`;
      path += `${pen ? 'L' : 'M'}${px(x(at))} ${px(y(value))}`;
      pen = true;
      previous = value;
    }
    parts.push(`<path d="${path}" fill="none" style="stroke:${stroke(series.colour)}" class="line${series.thin ? ' thin' : ''}"${dash(series.colour)}><title>${escapeHtml(series.name)}</title></path>`);
  }
  const svg = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(plot.title)}">${axes}${parts.join('')}${marks}</svg>`;
  return figure(plot.title, plot.caption, legendOf(drawn), svg);
}

export interface Bar { readonly x: number; readonly width: number; readonly value: number }
export function barPlot(plot: { title: string; caption?: string; x: Axis; y: Axis; series: readonly { name: string; colour: number; bars: readonly Bar[] }[]; outside?: readonly (readonly [number, number])[]; marks?: readonly Mark[] }): string {
  const drawn = plot.series.filter((series) => series.bars.some((bar) => bar.value > 0));
  if (drawn.length === 0) return '';
  const xs = range(drawn.flatMap((series) => series.bars.flatMap((bar) => [bar.x, bar.x + bar.width])), plot.x);
  const ys = range(drawn.flatMap((series) => series.bars.map((bar) => bar.value)), { min: 0, ...plot.y });
  ys.max *= 1.04;
  const { x, y, axes, marks } = frame(xs, ys, plot.outside, plot.marks);
  const parts = drawn.map((series, index) => {
    const share = 1 / drawn.length;
    const d = series.bars.filter((bar) => bar.value > 0).map((bar) => {
      const a = x(bar.x + bar.width * share * index);
      const b = x(bar.x + bar.width * share * (index + 1));
      return `M${px(a)} ${px(y(0))}V${px(y(bar.value))}H${px(b)}V${px(y(0))}Z`;
    }).join('');
    return `<path d="${d}" style="fill:${stroke(series.colour)}"><title>${escapeHtml(series.name)}</title></path>`;
  });
  const svg = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(plot.title)}">${axes}${parts.join('')}${marks}</svg>`;
  return figure(plot.title, plot.caption, legendOf(drawn), svg);
}

export interface Box { readonly name: string; readonly colour: number; readonly low: number; readonly q1: number; readonly median: number; readonly q3: number; readonly high: number; readonly note: string }
/** Horizontal boxes, one a row: whiskers low … high. */
export function boxPlot(plot: { title: string; caption?: string; x: Axis; boxes: readonly Box[] }): string {
  return rows(plot.title, plot.caption, plot.x, plot.boxes.map((box) => ({
    name: box.name, note: box.note, extent: [box.low, box.high],
    draw: (x, y) => `<path d="M${px(x(box.low))} ${y}H${px(x(box.q1))}M${px(x(box.q3))} ${y}H${px(x(box.high))}M${px(x(box.low))} ${y - 4}v8M${px(x(box.high))} ${y - 4}v8" style="stroke:${stroke(box.colour)}" class="whisker"/>`
      + `<rect x="${px(x(box.q1))}" y="${y - 7}" width="${px(Math.max(1, x(box.q3) - x(box.q1)))}" height="14" style="fill:${stroke(box.colour)};stroke:${stroke(box.colour)}" class="box"/>`
      + `<path d="M${px(x(box.median))} ${y - 7}v14" class="median"/>`,
  })));
}

export interface Interval { readonly name: string; readonly colour: number; readonly median: number; readonly ci: readonly [number, number] | null; readonly values: readonly number[]; readonly note: string }
/** Median, interval and the single values of each row. */
export function intervalPlot(plot: { title: string; caption?: string; x: Axis; intervals: readonly Interval[] }): string {
  return rows(plot.title, plot.caption, plot.x, plot.intervals.map((interval) => ({
    name: interval.name, note: interval.note, extent: [...interval.values, interval.median, ...(interval.ci ?? [])],
    draw: (x, y) => (interval.ci === null ? '' : `<path d="M${px(x(interval.ci[0]))} ${y}H${px(x(interval.ci[1]))}M${px(x(interval.ci[0]))} ${y - 4}v8M${px(x(interval.ci[1]))} ${y - 4}v8" style="stroke:${stroke(interval.colour)}" class="whisker"/>`)
      + interval.values.map((value) => `<circle cx="${px(x(value))}" cy="${y}" r="2.5" style="stroke:${stroke(interval.colour)}" class="value"/>`).join('')
      + `<circle cx="${px(x(interval.median))}" cy="${y}" r="4.5" style="fill:${stroke(interval.colour)}"/>`,
  })));
}

interface Row { readonly name: string; readonly note: string; readonly extent: readonly number[]; readonly draw: (x: (value: number) => number, y: number) => string }
function rows(title: string, caption: string | undefined, axis: Axis, list: readonly Row[]): string {
  if (list.length === 0) return '';
  const rowHeight = 38;
  const plotHeight = list.length * rowHeight + 4;
  const total = plotHeight + bottom + 2;
  const extent = list.flatMap((row) => row.extent);
  const xs = range(extent, axis.log ? axis : { min: 0, ...axis });
  if (xs.log) [xs.min, xs.max] = [xs.min / 1.2, xs.max * 1.2];
  else xs.max += (xs.max - xs.min) * 0.03;
  const inset = 12;
  const x = (value: number): number => inset + place(xs, value) * (width - 2 * inset);
  const parts: string[] = [];
  for (const value of ticksOf(xs, 5)) {
    parts.push(`<path class="grid" d="M${px(x(value))} 0V${plotHeight}"/><text class="tick" x="${px(x(value))}" y="${plotHeight + 16}" text-anchor="middle">${formatTick(value)}</text>`);
  }
  parts.push(`<path class="axis" d="M${inset} ${plotHeight}H${width - inset}"/><text class="label" x="${width / 2}" y="${plotHeight + 36}" text-anchor="middle">${escapeHtml(axis.label)}</text>`);
  list.forEach((row, index) => {
    const y = index * rowHeight + 4;
    const name = row.name.length > 40 ? `${row.name.slice(0, 39)}…` : row.name;
    parts.push(`<text class="row" x="${inset}" y="${y + 12}">${escapeHtml(name)}<tspan class="note" dx="6">${escapeHtml(row.note)}</tspan></text>${row.draw(x, y + 25)}`);
  });
  return figure(title, caption, '', `<svg viewBox="0 0 ${width} ${total}" role="img" aria-label="${escapeHtml(title)}">${parts.join('')}</svg>`);
}
