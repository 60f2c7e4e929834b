// What does a search through REST cost the server, compared with the least server that could answer it?
//
//   npm run bench rest [-- --requests 4000 --rounds 7 --records 10,2000 --warm 80000]
//
// Two servers, each in its own process, and one client with eight connections that drives them in turns: Quiver, and node:http alone
// (bare-server.ts) with the same bodies and answers of the same size. With ten records, all of which are found, little of the cost is the
// search; what the same search costs without a server takes turns with them (embedded.ts). `--profile DIR` makes Node.js write a profile of
// the server there.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answerAside } from "../shared/child.ts";
import { median, overRounds } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { untilQuiet } from "../shared/quiet.ts";
import type { Measured, Row } from "../shared/results.ts";
import { inTurns } from "../shared/turns.ts";
import { base64, definitionOf, queries, questions, topK } from "./data.ts";
import { openEmbedded } from "./embedded.ts";
import {
  clientOf,
  drive,
  fill,
  type MeasuredServer,
  type Send,
  startBare,
  startQuiver,
} from "./measured-server.ts";

export type RestPlan = {
  readonly requests: number;
  readonly rounds: number;
  /** Before the rounds: the compiler of Node.js works for some ten thousand requests. */
  readonly warm: number;
  /** Numbers of records. */
  readonly sizes: readonly number[];
  readonly profile?: string;
};

/** The forms of a vector in a body. */
const forms: Readonly<Record<string, (vector: Float32Array) => unknown>> = {
  numbers: (vector) => Array.from(vector),
  base64,
};

const asJson = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** What acts in turns. @property us processor time for a request, of each turn */
type Side = { readonly act: (requests: number) => Promise<number>; readonly us: number[] };

/** A server that is asked with these bodies. To ask Quiver for its processor time takes 2.7 ms of it: so a turn has thousands of requests. */
function asked(server: MeasuredServer, send: Send, path: string, bodies: readonly Buffer[]): Side {
  const act = async (requests: number) => {
    const before = await server.cpuMs();
    await drive(send, path, bodies, requests);
    return (((await server.cpuMs()) - before) * 1_000) / requests;
  };
  return { act, us: [] };
}

type Run = {
  readonly size: number;
  readonly form: string;
  readonly bodyBytes: number;
  readonly ours: Side;
  readonly theirs: Side;
};

/** The ratios of each size and form. With the fewest records, the goals are for the way of a request without its search. */
function rowsOf(runs: readonly Run[], searches: ReadonlyMap<number, Side>): Row[] {
  return runs.map(({ size, form, bodyBytes, ours, theirs }) => {
    const search = searches.get(size) as Side;
    const numbers = runs.find((run) => run.size === size && run.form === "numbers") as Run;
    const ratios = ours.us.map((us, i) => us / theirs.us[i]);
    /** The ratio of what a request costs besides its search. */
    const withoutSearch = (side: Side) => ours.us.map((us, i) => (us - search.us[i]) / side.us[i]);
    return {
      records: size,
      form,
      bodyBytes,
      quiverUs: median(ours.us),
      searchUs: median(search.us),
      bareUs: median(theirs.us),
      ...overRounds("ratio", ratios),
      ...overRounds("ratioWithoutSearch", withoutSearch(theirs)),
      ratioToNumbers: median(ours.us.map((us, i) => us / numbers.theirs.us[i])),
      ...overRounds("ratioToNumbersWithoutSearch", withoutSearch(numbers.theirs)),
    };
  });
}

async function measure({ requests, rounds, warm, sizes, profile }: RestPlan): Promise<Measured> {
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-rest-"));
  const ends: (() => unknown)[] = [];
  try {
    const searches = new Map<number, Side>();
    for (const size of sizes) {
      const embedded = await openEmbedded(join(directory, `${size}`), size);
      ends.push(() => embedded.close());
      searches.set(size, { act: embedded.search, us: [] });
    }

    const flags = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
    const quiver = await startQuiver(join(directory, "served"), flags);
    ends.push(() => quiver.end());
    const bare = await startBare();
    ends.push(() => bare.end());
    const toQuiver = clientOf(quiver.url);
    const toBare = clientOf(bare.url);
    ends.push(toQuiver.end, toBare.end);
    for (const size of sizes) await fill(toQuiver.send, size);
    await untilQuiet(quiver.cpuMs, profile === undefined ? undefined : 200);

    const runs = sizes.flatMap((size) =>
      Object.entries(forms).map(([form, formOf]): Run => {
        const bodies = questions.map((vector) => asJson({ query_vector: formOf(vector), top_k: topK }));
        const path = `/vectordb/collections/${definitionOf(size).name}/search/dense`;
        const ours = asked(quiver, toQuiver.send, path, bodies);
        const theirs = asked(bare, toBare.send, "/", bodies);
        return { size, form, bodyBytes: bodies[0].length, ours, theirs };
      }),
    );
    const sides = [...searches.values(), ...runs.flatMap(({ ours, theirs }) => [ours, theirs])];
    for (const side of sides) await side.act(warm / runs.length);
    await inTurns(
      () => sides,
      { rounds, warmUps: 0 },
      async ({ act, us }) => {
        us.push(await act(requests));
      },
    );
    const options = { requests, queries, rounds, warm, k: topK };
    return {
      key: "all",
      title: "What a search costs through REST",
      options,
      rows: rowsOf(runs, searches),
    };
  } finally {
    for (const end of ends.toReversed()) await end();
    rmSync(directory, { recursive: true, force: true });
  }
}

if (import.meta.main && !(await answerAside(measure))) {
  const { values, isKept } = readOptions(
    {},
    { requests: "4000", rounds: "7", records: "10,2000", warm: "80000", profile: "" },
  );
  const [requests, rounds, warm] = [values.requests, values.rounds, values.warm].map(Number);
  const sizes = values.records.split(",").map(Number);
  const profile = values.profile === "" ? undefined : values.profile;
  publish("rest", await measure({ requests, rounds, warm, sizes, profile }), isKept);
}
