/** A growing FIFO of u32: what a discipline must remember of each packet besides the packet itself. Allocates only when it doubles. */

export class U32Ring {
  private values = new Uint32Array(64);
  private first = 0;
  private count = 0;

  push(value: number): void {
    if (this.count === this.values.length) this.grow();
    this.values[(this.first + this.count++) & (this.values.length - 1)] = value;
  }

  /** The oldest; the caller knows that there is one. */
  shift(): number {
    const value = this.values[this.first]!;
    this.first = (this.first + 1) & (this.values.length - 1);
    this.count--;
    return value;
  }

  private grow(): void {
    const larger = new Uint32Array(this.values.length * 2);
    for (let i = 0; i < this.count; i++) larger[i] = this.values[(this.first + i) & (this.values.length - 1)]!;
    this.values = larger;
    this.first = 0;
  }
}
