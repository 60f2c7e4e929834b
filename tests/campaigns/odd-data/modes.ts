// In which ways are records added to the index and removed from it?
//
// Each mode ends with records whose vectors are known by label, after all background work is done.

import { Background } from "@quiverdb/engine/base/background";
import { BuilderThreads } from "@quiverdb/engine/runtime/builders";
import type { Random } from "../../odd-data/random.ts";
import { topK } from "./marks.ts";
import { openEngine, openIndex, type Subject, type Wanted } from "./subject.ts";
import { reaches, scoreOf } from "./truth.ts";

type Living = Map<number, Float32Array>;

/** The input of a mode. */
type Play = {
  readonly subject: Subject;
  readonly wanted: Wanted;
  readonly rows: readonly Float32Array[];
  readonly random: Random;
  readonly living: Living;
};

export type Mode = {
  readonly name: string;
  readonly builders: 0 | 1 | 2;
  readonly isEngine?: boolean;
  /** Its probability if one mode is drawn for each case: starting the engine twice takes as long as ten other cases. */
  readonly weight: number;
  run(play: Play): Promise<void>;
};

async function add({ subject, living }: Play, first: number, rows: readonly Float32Array[]): Promise<void> {
  rows.forEach((row, i) => {
    living.set(first + i, row);
  });
  await subject.add(first, rows);
}

async function remove({ subject, living }: Play, labels: readonly number[]): Promise<void> {
  for (const label of labels) living.delete(label);
  await subject.remove(labels);
}

const inOnePiece = (play: Play): Promise<void> => add(play, 0, play.rows);

/** Small batches with searches after each one: records are found as soon as they are added, and nothing else is found. */
async function streamed(play: Play): Promise<void> {
  const { rows, random, subject, living, wanted } = play;
  const batch = Math.max(5, Math.ceil(rows.length / 60));
  for (let first = 0; first < rows.length; first += batch) {
    await add(play, first, rows.slice(first, first + batch));
    const query = random.pick(rows.slice(0, first + batch));
    const found = await subject.search(query, topK);
    const known = found.map((label) => {
      const row = living.get(label);
      if (row === undefined) throw new Error(`record ${label} was found before it was added`);
      return scoreOf(wanted.metric, query, row);
    });
    if (known.length !== Math.min(topK, living.size))
      throw new Error(`${known.length} results of ${living.size} records`);
    if (known.some((score, i) => i > 0 && !reaches(known[i - 1], score)))
      throw new Error(`results are not in order: ${known}`);
  }
}

/** A checkpoint is made and restored in the middle; some records are removed while it is written. */
async function resumed(play: Play): Promise<void> {
  const { rows, random, subject, living } = play;
  const middle = Math.floor(0.6 * rows.length);
  await add(play, 0, rows.slice(0, middle));
  const removing = random.distinct(Math.floor(middle / 50), middle);
  for (const label of removing) living.delete(label);
  await subject.restart(removing);
  await add(play, middle, rows.slice(middle));
  // The removed ones are added again, as other records.
  await add(
    play,
    rows.length,
    removing.map((label) => rows[label]),
  );
}

/** A fifth is removed, a third is replaced by rows of others, and a tenth is added again. */
async function changed(play: Play): Promise<void> {
  const { rows, random } = play;
  await inOnePiece(play);
  const labels = random.shuffled(rows.map((_, label) => label));
  const [fifth, third] = [Math.floor(rows.length / 5), Math.floor(rows.length / 3)];
  const leaving = labels.slice(0, fifth);
  const replaced = labels.slice(fifth, fifth + third);
  let next = rows.length;
  const batch = Math.max(1, Math.ceil(replaced.length / 10));
  for (let at = 0; at < replaced.length; at += batch) {
    const some = replaced.slice(at, at + batch);
    await remove(play, some);
    const news = some.map((label) => rows[label]);
    await add(play, next, news);
    next += news.length;
    await remove(
      play,
      leaving.slice((at / batch) * Math.ceil(fifth / 10), (at / batch + 1) * Math.ceil(fifth / 10)),
    );
  }
  await remove(
    play,
    leaving.filter((label) => play.living.has(label)),
  );
  await add(
    play,
    next,
    leaving.slice(0, Math.floor(rows.length / 10)).map((label) => rows[label]),
  );
}

/** Everything through a collection, as users do. */
async function lived(play: Play): Promise<void> {
  await streamed(play);
  const { rows, random, subject, living } = play;
  const removing = random.distinct(Math.floor(rows.length / 10), rows.length);
  for (const label of removing) living.delete(label);
  await subject.restart(removing);
  await add(
    play,
    rows.length,
    removing.map((label) => rows[label]),
  );
}

export const modes: readonly Mode[] = [
  { name: "in-place", builders: 0, weight: 3, run: inOnePiece },
  { name: "one-builder", builders: 1, weight: 3, run: inOnePiece },
  { name: "two-builders", builders: 2, weight: 3, run: inOnePiece },
  { name: "streamed", builders: 1, weight: 3, run: streamed },
  { name: "streamed-two", builders: 2, weight: 3, run: streamed },
  { name: "resumed", builders: 1, weight: 3, run: resumed },
  { name: "changed", builders: 1, weight: 3, run: changed },
  { name: "changed-two", builders: 2, weight: 3, run: changed },
  { name: "engine", builders: 1, isEngine: true, weight: 1, run: lived },
];

/** A failure in the background fails the campaign. */
const crew = (width: number) =>
  new BuilderThreads(
    new Background({
      onFailed: ({ task, error }) => {
        throw new Error(`${task} failed`, { cause: error });
      },
      onRecovered: () => {},
    }),
    width,
  );

/** Builder threads for all cases, because starting them takes longer than a case. */
export class Crews {
  readonly #crews = { 1: crew(1), 2: crew(2) };

  of(builders: 0 | 1 | 2): BuilderThreads {
    return this.#crews[builders === 2 ? 2 : 1];
  }

  async close(): Promise<void> {
    await Promise.all([this.#crews[1].close(), this.#crews[2].close()]);
  }
}

/** Runs a mode to its end. The caller closes the subject. */
export async function play(
  mode: Mode,
  wanted: Omit<Wanted, "builders">,
  rows: readonly Float32Array[],
  random: Random,
  crews: Crews,
): Promise<{ subject: Subject; living: Living }> {
  const own: Wanted = { ...wanted, builders: mode.builders };
  const subject = mode.isEngine ? await openEngine(own) : openIndex(own, crews.of(mode.builders));
  const living: Living = new Map();
  try {
    await mode.run({ subject, wanted: own, rows, random, living });
    const records = await subject.ready();
    if (records !== living.size)
      throw new Error(`the index has ${records} records instead of ${living.size}`);
  } catch (error) {
    await subject.close();
    throw error;
  }
  return { subject, living };
}
