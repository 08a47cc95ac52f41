/** Names that come near a mistyped one: by edit distance, or one within the other. */

export function nearestWords(name: string, candidates: readonly string[], count = 5): string[] {
  const wanted = name.toLowerCase();
  return candidates.map((candidate) => {
    const word = candidate.toLowerCase();
    const inside = wanted.length > 2 && (word.includes(wanted) || (word.length > 2 && wanted.includes(word)));
    return { candidate, distance: editDistance(wanted, word), inside };
  }).filter(({ candidate, distance, inside }) => inside || distance <= Math.max(2, Math.floor(Math.max(candidate.length, wanted.length) / 3)))
    .sort((a, b) => a.distance - b.distance || (a.candidate < b.candidate ? -1 : 1)).slice(0, count).map(({ candidate }) => candidate);
}

/** Levenshtein's. */
export function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}
