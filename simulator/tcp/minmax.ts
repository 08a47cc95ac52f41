/**
 * Windowed minimum or maximum from three samples in constant space (Kathleen Nichols), as lib/win_minmax.c keeps it:
 * best, second and third best of the window's thirds. Differences from Linux: none.
 */

export class WindowedFilter {
  private readonly t = new Float64Array(3);
  private readonly v = new Float64Array(3);
  constructor(private readonly maximum: boolean) {}

  get value(): number { return this.v[0]!; }

  reset(time: number, value: number): number {
    this.t.fill(time);
    this.v.fill(value);
    return value;
  }

  /** @param window in the unit of `time` @returns the best of the window */
  update(window: number, time: number, value: number): number {
    const { t, v } = this;
    const better = (x: number, y: number): boolean => (this.maximum ? x >= y : x <= y);
    if (better(value, v[0]!) || time - t[2]! > window) return this.reset(time, value);
    if (better(value, v[1]!)) { t[1] = t[2] = time; v[1] = v[2] = value; } else if (better(value, v[2]!)) { t[2] = time; v[2] = value; }
    const age = time - t[0]!;
    if (age > window) {
      t[0] = t[1]!; v[0] = v[1]!; t[1] = t[2]!; v[1] = v[2]!; t[2] = time; v[2] = value;
      if (time - t[0]! > window) { t[0] = t[1]!; v[0] = v[1]!; t[1] = t[2]!; v[1] = v[2]!; t[2] = time; v[2] = value; }
    } else if (t[1] === t[0] && age > window / 4) {
      t[1] = t[2] = time; v[1] = v[2] = value;
    } else if (t[2] === t[1] && age > window / 2) { t[2] = time; v[2] = value; }
    return v[0]!;
  }
}
