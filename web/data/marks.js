// Marks of events: ORIGIN-NUMBER, where the number counts the events before. An origin is a process of the sidecar. Pure.

/**
 * Returns how many events a mark has ahead of another; NaN where they do not compare, because they are of different processes.
 * @param {string} mark @param {string} other
 */
export function ahead(mark, other) {
  const [[origin, number], [from, before]] = [mark, other].map((one) => one.split("-"));
  return origin === from ? Number(number) - Number(before) : NaN;
}

/** Finds streams that have ended without a word, as behind a router that forgot them. */
export class Silence {
  /** @param {number} patience answers in a row that may be ahead of a stream that stands still */
  constructor(patience) {
    this.patience = patience;
    this.count = 0;
    this.stream = "";
  }

  /** Takes the mark of an answer, and where the stream is. Returns whether to open it again. @param {string} answer @param {string} stream */
  take(answer, stream) {
    const late = ahead(answer, stream) > 0;
    this.count = late && stream === this.stream ? this.count + 1 : Number(late);
    this.stream = stream;
    if (this.count <= this.patience) return false;
    this.count = 0;
    return true;
  }
}
