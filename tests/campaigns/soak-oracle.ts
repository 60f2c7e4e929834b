// Which records must exist at the end, and in which state?
//
// Every id is written by one request at a time. An acknowledged write determines the state; a rejected one changes nothing; one without a
// response leaves both states possible, until the next acknowledged write. The contents of a record follow from its id and its revision, so
// all of it can be checked.

import { randomNumbers } from "@quiverdb/kernels/random";

export const dimension = 64;
const words = Array.from({ length: 400 }, (_, i) => `word${i.toString(36)}`);
const sparseDimensions = 2_000;

export type Content = {
  id: string;
  dense_values: number[];
  sparse_indices: number[];
  sparse_values: number[];
  text: string;
  metadata: { revision: number };
};

/** The numbers of a query or a record for a seed, exact in 32 bits. */
export function contentOf(id: string, revision: number): Content {
  let hash = 2_166_136_261 ^ revision;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 16_777_619);
  const random = randomNumbers(hash);
  const start = Math.floor(random() * sparseDimensions);
  return {
    id,
    dense_values: Array.from({ length: dimension }, () => Math.round(random() * 2_048 - 1_024) / 1_024),
    sparse_indices: Array.from({ length: 12 }, (_, i) => start + i * 97),
    sparse_values: Array.from({ length: 12 }, () => Math.round(random() * 256 + 1) / 256),
    text: Array.from({ length: 20 }, () => words[Math.floor(random() ** 2 * words.length)]).join(" "),
    metadata: { revision },
  };
}

/** A possible state of an id: a revision, or nothing. */
type State = number | null;

/** The outcome of a write: applied, certainly not applied, or unknown. */
export type Fate = "acknowledged" | "refused" | "unknown";

/** The records of one collection. */
export class Oracle {
  readonly #possible = new Map<string, Set<State>>();
  readonly #free: string[];
  readonly #random: () => number;
  #revision = 0;
  acknowledged = 0;
  refused = 0;
  unknown = 0;

  constructor(prefix: string, count: number, seed: number) {
    this.#free = Array.from({ length: count }, (_, i) => `${prefix}${i}`);
    this.#random = randomNumbers(seed);
  }

  /** Ids without a write in progress, reserved for the caller until `settle`. Fewer if not enough are free. */
  take(count: number): string[] {
    const taken: string[] = [];
    while (taken.length < count && this.#free.length > 0) {
      const at = Math.floor(this.#random() * this.#free.length);
      const last = this.#free.pop() as string;
      if (at === this.#free.length) taken.push(last);
      else {
        taken.push(this.#free[at]);
        this.#free[at] = last;
      }
    }
    return taken;
  }

  nextRevision(): number {
    return ++this.#revision;
  }

  /** Whether the id certainly exists. */
  isThere(id: string): boolean {
    const states = this.#possible.get(id);
    return states !== undefined && !states.has(null);
  }

  /** Records the outcome of a write of some ids, and releases them. */
  settle(ids: readonly string[], state: State, fate: Fate): void {
    this[fate]++;
    for (const id of ids) {
      if (fate === "acknowledged") this.#possible.set(id, new Set([state]));
      if (fate === "unknown") {
        const states = this.#possible.get(id) ?? new Set([null]);
        this.#possible.set(id, states.add(state));
      }
      this.#free.push(id);
    }
  }

  /** Compares with all existing records. @throws Error with the first difference */
  check(records: Iterable<Content>): number {
    const seen = new Set<string>();
    for (const record of records) {
      const { id } = record;
      if (seen.has(id)) throw new Error(`'${id}' is there twice`);
      seen.add(id);
      const states = this.#possible.get(id);
      const { revision } = record.metadata;
      if (states === undefined || !states.has(revision))
        throw new Error(`'${id}' has revision ${revision}; expected ${shown(states)}`);
      const wanted = contentOf(id, revision);
      for (const field of ["dense_values", "sparse_indices", "text"] as const)
        if (JSON.stringify(record[field]) !== JSON.stringify(wanted[field]))
          throw new Error(`'${id}', revision ${revision}: its ${field} are not those that were written`);
    }
    for (const [id, states] of this.#possible)
      if (!seen.has(id) && !states.has(null))
        throw new Error(`'${id}' is not there; expected ${shown(states)}`);
    return seen.size;
  }
}

function shown(states: ReadonlySet<State> | undefined): string {
  return states === undefined ? "nothing" : [...states].map((state) => state ?? "nothing").join(" or ");
}
