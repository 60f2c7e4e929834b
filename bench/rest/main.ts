// What does a search through REST cost the server, compared with the least server that could answer it?
//
//   npm run bench rest [-- --requests 2000 --rounds 7 --records 10,2000 --warm 80000]
//
// Two servers, each in its own process, and one client with eight connections that drives them in turns: Quiver, and node:http alone
// (bare-server.ts) with the same bodies and answers of the same size. With ten records, all of which are found, little of the cost is the
// search; what the same search costs in a process of its own is measured, too (embedded.ts). `--profile DIR` makes Node.js write a profile of
// the server there.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { answerAside } from "../shared/child.ts";
import { median } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { untilQuiet } from "../shared/quiet.ts";
import type { Measured, Row } from "../shared/results.ts";
import { inTurns } from "../shared/turns.ts";
import { base64, definitionOf, queries, questions, topK } from "./data.ts";
import { embeddedUs } from "./embedded.ts";
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

/** One server, and what it is asked. */
type Side = {
  readonly server: MeasuredServer;
  readonly send: Send;
  readonly path: string;
  readonly bodies: readonly Buffer[];
  readonly us: number[];
};

/** Adds the microseconds of the server's processor time for a request. */
async function turn({ server, send, path, bodies, us }: Side, requests: number): Promise<void> {
  const before = await server.cpuMs();
  await drive(send, path, bodies, requests);
  us.push((((await server.cpuMs()) - before) * 1_000) / requests);
}

/** The ratios of each size and form. With the fewest records, the goals are for the way of a request without its search. */
function rowsOf(runs: readonly Run[], searchUs: ReadonlyMap<number, number>): Row[] {
  const medians = runs.map(({ size, form, ours, theirs }) => {
    const ratios = ours.us.map((us, i) => us / theirs.us[i]);
    return {
      records: size,
      form,
      bodyBytes: ours.bodies[0].length,
      quiverUs: median(ours.us),
      searchUs: searchUs.get(size) as number,
      bareUs: median(theirs.us),
      ratio: median(ratios),
      ratioMin: Math.min(...ratios),
      ratioMax: Math.max(...ratios),
    };
  });
  return medians.map((row) => {
    const numbersUs = medians.find(
      ({ records, form }) => records === row.records && form === "numbers",
    )?.bareUs;
    const ownUs = row.quiverUs - row.searchUs;
    return {
      ...row,
      ratioWithoutSearch: ownUs / row.bareUs,
      ratioToNumbers: row.quiverUs / (numbersUs ?? Number.NaN),
      ratioToNumbersWithoutSearch: ownUs / (numbersUs ?? Number.NaN),
    };
  });
}

type Run = { readonly size: number; readonly form: string; readonly ours: Side; readonly theirs: Side };

async function measure({ requests, rounds, warm, sizes, profile }: RestPlan): Promise<Measured> {
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-rest-"));
  const ends: (() => unknown)[] = [];
  try {
    const searchUs = new Map<number, number>();
    for (const size of sizes)
      searchUs.set(size, await embeddedUs(join(directory, `${size}`), size, requests, rounds));

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
        const ours: Side = { server: quiver, send: toQuiver.send, path, bodies, us: [] };
        const theirs: Side = { server: bare, send: toBare.send, path: "/", bodies, us: [] };
        return { size, form, ours, theirs };
      }),
    );
    const sides = runs.flatMap(({ ours, theirs }) => [ours, theirs]);
    for (const { send, path, bodies } of sides) await drive(send, path, bodies, warm / runs.length);
    await inTurns(
      () => sides,
      { rounds, warmUps: 0 },
      (side) => turn(side, requests),
    );
    const options = { requests, queries, rounds, warm, k: topK };
    return {
      key: "all",
      title: "What a search costs through REST",
      options,
      rows: rowsOf(runs, searchUs),
    };
  } finally {
    for (const end of ends.toReversed()) await end();
    rmSync(directory, { recursive: true, force: true });
  }
}

if (import.meta.main && !(await answerAside(measure))) {
  const { values, isKept } = readOptions(
    {},
    { requests: "2000", rounds: "7", records: "10,2000", warm: "80000", profile: "" },
  );
  const [requests, rounds, warm] = [values.requests, values.rounds, values.warm].map(Number);
  const sizes = values.records.split(",").map(Number);
  const profile = values.profile === "" ? undefined : values.profile;
  publish("rest", await measure({ requests, rounds, warm, sizes, profile }), isKept);
}
