// Which effort of a server is the least that reaches a recall?
//
// Recall grows with the effort (the width of the beam). The efforts of a ladder are tried in ascending order until one reaches the recall;
// then the gap below it is halved until its ends are within a tenth of each other. Where wider beams find no more (codes without the vectors
// have such a limit), the wider ones are not tried: each would take longer than all before it.

export type Reached = { readonly effort: number; readonly recall: number };

/** The ends of a gap that is not halved any more, as a ratio. */
const gapRatio = 1.1;
/** The limit is reached if, from some width on, so many wider beams together add less than this to the recall. */
const plateau = { from: 96, beams: 3, gain: 0.001 } as const;

/** Beam widths; the last one is the greatest that all servers take. */
export const ladder: readonly number[] = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1000];

/** Asks each effort only once, for several recalls. */
export function sweepOf(efforts: readonly number[], recallAt: (effort: number) => Promise<number>) {
  const known = new Map<number, number>();
  const recallOf = async (effort: number): Promise<number> => {
    const recall = known.get(effort) ?? (await recallAt(effort));
    known.set(effort, recall);
    return recall;
  };
  /** The least effort that reaches the recall, or one at most a tenth above it; undefined if none does. */
  return async (wanted: number): Promise<Reached | undefined> => {
    const recalls: number[] = [];
    for (const [i, effort] of efforts.entries()) {
      const recall = await recallOf(effort);
      if (recall >= wanted) return i === 0 ? { effort, recall } : between(efforts[i - 1], effort);
      recalls.push(recall);
      const before = i - plateau.beams;
      if (efforts[before] >= plateau.from && recall - recalls[before] < plateau.gain) break;
    }
    return undefined;

    async function between(low: number, high: number): Promise<Reached> {
      let [under, over] = [low, high];
      while (over - under > 1 && over / under > gapRatio) {
        const middle = Math.round((under + over) / 2);
        if ((await recallOf(middle)) >= wanted) over = middle;
        else under = middle;
      }
      return { effort: over, recall: await recallOf(over) };
    }
  };
}
