// Is there a serial order of all operations that explains what every client saw?
//
// The whole collection is treated as one object: a state records for each key its last write. Every operation must take effect at one
// moment between its invocation and its response, and a read must see the state of that moment in every key that it returns. That is strict
// serializability, which includes the individual promises: a read sees one version (snapshot isolation), a transaction is visible as a
// whole or not at all, a client reads its own writes and never an older state than before, and what was acknowledged before a request began
// is seen by it.
//
// The method is Wing and Gong's search for a linearization ("Testing and Verifying Concurrent Objects", 1993) in the just-in-time form of
// Lowe ("Testing for linearizability", 2017), as Knossos of Jepsen and Porcupine have it. Going through the history by time, it keeps all
// *configurations* that are still possible: a state, and which of the running operations have had their effect. Only the response of an
// operation forces effects. A read changes nothing, so it is assigned its moment as soon as a state fits; only writes multiply
// configurations. As in Elle (Kingsbury and Alvaro, VLDB 2020) every write writes a unique value, so that each read value identifies its
// write; with that, and with reads of the whole state, few configurations remain at any time.
//
// A write with an unknown outcome (the server was killed) may or may not take effect, but only up to the moment at which the server was
// certainly dead.

/** Stamp of a missing key. */
export const absent = 0;
/** Any stamp: it is only known that the key existed. */
export const present = -1;

type Common = {
  readonly client: number;
  /** The request, for messages. */
  readonly what: string;
  /** Milliseconds on one clock for all clients. */
  readonly begins: number;
  readonly ends: number;
};

export type Write = Common & {
  readonly kind: "write";
  /** Key and stamp; `absent` for a key that is deleted. */
  readonly sets: readonly (readonly [key: number, stamp: number])[];
  /** Keys that must have existed for it to succeed. */
  readonly needs: readonly number[];
  readonly isKnown: boolean;
};

export type Read = Common & {
  readonly kind: "read";
  /** Key and stamp, `absent` or `present`. */
  readonly saw: readonly (readonly [key: number, stamp: number])[];
};

export type Operation = Write | Read;

export type Verdict =
  | { readonly isExplained: true; readonly operations: number; readonly configurationsMost: number }
  | { readonly isExplained: false; readonly operation: Operation; readonly why: string };

/** Maximum number of concurrent operations, which are bits of a number. */
const runningMax = 30;

type Configuration = { readonly state: readonly number[]; readonly stateId: number; readonly done: number };

/** @param keys number of keys, all absent at the start */
export function check(history: readonly Operation[], keys: number): Verdict {
  const moments = history
    .flatMap((operation) => [
      { at: operation.begins, isEnd: false, operation },
      { at: operation.ends, isEnd: true, operation },
    ])
    // An operation that begins at the same moment at which another ends may have overlapped it.
    .sort((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd));
  const states = new States();
  const running: (Operation | undefined)[] = [];
  const places = new Map<Operation, number>();
  let configurations = [states.configuration(new Array<number>(keys).fill(absent), 0)];
  let configurationsMost = 1;
  for (const { isEnd, operation } of moments) {
    if (!isEnd) {
      const free = running.indexOf(undefined);
      const place = free < 0 ? running.length : free;
      if (place >= runningMax) throw new Error(`more than ${runningMax} operations run at once`);
      running[place] = operation;
      places.set(operation, place);
      if (operation.kind === "read") {
        configurations = configurations.map((each) =>
          fits(operation, each.state) ? { ...each, done: each.done | (1 << place) } : each,
        );
      }
      continue;
    }
    const place = places.get(operation) as number;
    const bit = 1 << place;
    const after = withEffect(configurations, bit, running, states);
    if (operation.kind === "write" && !operation.isKnown)
      after.push(...configurations.filter(({ done }) => (done & bit) === 0));
    if (after.length === 0)
      return { isExplained: false, operation, why: whyNot(operation, configurations, states) };
    configurations = distinct(after.map((each) => ({ ...each, done: each.done & ~bit })));
    configurationsMost = Math.max(configurationsMost, configurations.length);
    running[place] = undefined;
    places.delete(operation);
  }
  return { isExplained: true, operations: history.length, configurationsMost };
}

/** All configurations in which the operation of `bit` has taken effect, with a minimum of other effects. */
function withEffect(
  from: readonly Configuration[],
  bit: number,
  running: readonly (Operation | undefined)[],
  states: States,
): Configuration[] {
  const found: Configuration[] = [];
  const seen = new Set<string>();
  const open = [...from];
  for (let each = open.pop(); each !== undefined; each = open.pop()) {
    const key = keyOf(each);
    if (seen.has(key)) continue;
    seen.add(key);
    if ((each.done & bit) !== 0) {
      found.push(each);
      continue;
    }
    for (const [place, operation] of running.entries()) {
      if (operation?.kind !== "write" || (each.done & (1 << place)) !== 0) continue;
      if (operation.needs.some((needed) => each.state[needed] === absent)) continue;
      const state = [...each.state];
      for (const [written, stamp] of operation.sets) state[written] = stamp;
      let done = each.done | (1 << place);
      for (const [other, reading] of running.entries())
        if (reading?.kind === "read" && fits(reading, state)) done |= 1 << other;
      open.push(states.configuration(state, done));
    }
  }
  return found;
}

const keyOf = ({ stateId, done }: Configuration) => `${stateId}/${done}`;

const distinct = (configurations: readonly Configuration[]) => [
  ...new Map(configurations.map((each) => [keyOf(each), each])).values(),
];

function fits({ saw }: Read, state: readonly number[]): boolean {
  for (const [key, stamp] of saw) {
    if (stamp === present ? state[key] === absent : state[key] !== stamp) return false;
  }
  return true;
}

/** Every state that was possible at some time, by number. */
class States {
  readonly #ids = new Map<string, number>();
  readonly all: (readonly number[])[] = [];

  configuration(state: readonly number[], done: number): Configuration {
    const text = state.join();
    let stateId = this.#ids.get(text);
    if (stateId === undefined) {
      stateId = this.all.length;
      this.#ids.set(text, stateId);
      this.all.push(state);
    }
    return { state, stateId, done };
  }
}

function whyNot(operation: Operation, configurations: readonly Configuration[], states: States): string {
  const at = `${operation.what} of client ${operation.client}, from ${operation.begins.toFixed(1)} to ${operation.ends.toFixed(1)} ms`;
  const possible = configurations.slice(0, 3).map(({ state }) => `[${state}]`);
  if (operation.kind === "write")
    return `${at}: no order lets it succeed; possible states: ${possible.join(" ")}`;
  const saw = operation.saw.map(([key, stamp]) => `${key}:${stamp}`).join(" ");
  const earlier = states.all.findLastIndex((state) => fits(operation, state));
  const diagnosis =
    earlier >= 0
      ? `it is a state that was possible before (number ${earlier} of ${states.all.length}): the read version was too old`
      : "it was never the state: it mixes versions, or has uncommitted data";
  return `${at}, saw ${saw}\n${diagnosis}\npossible states: ${possible.join(" ")}`;
}
