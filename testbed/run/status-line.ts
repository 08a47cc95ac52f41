/** One line at the foot of the terminal that is rewritten in place, with finished lines scrolling above it. On anything but a terminal only the finished lines are written. */

export class StatusLine {
  private text = '';
  private shownMs = 0;

  constructor(private readonly stream: NodeJS.WriteStream) {}

  /** Replaces the line; redrawn at most ten times a second. */
  set(text: string): void {
    this.text = text;
    if (!this.stream.isTTY) return;
    const now = performance.now();
    if (now - this.shownMs < 100) return;
    this.shownMs = now;
    const width = (this.stream.columns || 80) - 1;
    this.stream.write(`\r\x1b[K${text.length > width ? `${text.slice(0, width - 1)}…` : text}`);
  }

  /** Writes a line that stays. */
  line(text: string): void {
    this.clear();
    this.stream.write(`${text}\n`);
    this.shownMs = 0;
    this.set(this.text);
  }

  clear(): void {
    if (this.stream.isTTY) this.stream.write('\r\x1b[K');
  }
}
