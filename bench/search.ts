// What does a search in process cost, beside rivals?
//
//   npm run bench dense                                      also filters, sparse, text, growth
//   npm run bench dense -- --sets siftsmall                  one set; the stored results of the others stay
//   npm run bench growth -- --lines dense --steps 10000      one kind of search and one size of what grows
//   npm run bench dense -- --sets mnist --rows 5000          a trial with the first rows, only printed
//
//   --engines NAME,...  --rounds 3  --queries 400  --rows COUNT  --efforts 10,16,...  --write
//
// What grows is built anew at each step. A step is stored as soon as it is done, so that a run can be divided.

import { kindNamed } from "./engines/engine.ts";
import { growing } from "./growing.ts";
import { installRivals } from "./shared/install.ts";
import { measure, type Plan } from "./shared/measure.ts";
import { readOptions } from "./shared/options.ts";
import { publish } from "./shared/publish.ts";
import type { Measured } from "./shared/results.ts";
import { subjectNamed } from "./subjects.ts";

const { values, isKept } = readOptions(
  { benchmark: "", sets: "", lines: "", steps: "" },
  { engines: "", rounds: "", queries: "", rows: "", efforts: "" },
);
const listOf = (text: string): string[] | undefined => (text === "" ? undefined : text.split(","));
const numberOr = (text: string, otherwise: number): number => (text === "" ? otherwise : Number(text));

const isGrowth = values.benchmark === "growth";

/** Kinds of filters are subjects of their own, stored together. */
const subjectsOf: Readonly<Record<string, readonly string[]>> = {
  filters: ["filters", "filters-words", "filters-splade"],
};

type Asked = Pick<Plan, "subject" | "set" | "engines" | "rounds" | "queryCount" | "efforts" | "rowsMax"> & {
  readonly key: string;
};

/** What is measured with these options, one after the other. */
function asked(): Asked[] {
  if (isGrowth) {
    const lines = listOf(values.lines)?.map((name) => kindNamed(growing, name)) ?? growing;
    const wanted = listOf(values.steps)?.map(Number);
    return lines.flatMap(({ name, steps, ...line }) =>
      steps
        .filter((step) => wanted?.includes(step) ?? true)
        .map((rowsMax) => ({ ...line, key: `${name}-${rowsMax}`, rowsMax })),
    );
  }
  const names = subjectsOf[values.benchmark] ?? [values.benchmark];
  const wanted = listOf(values.sets);
  return names.map(subjectNamed).flatMap(({ name: subject, sets, rounds, queryCount }) =>
    (names.length > 1 ? sets.filter((set) => wanted?.includes(set) ?? true) : (wanted ?? sets)).map(
      (set) => ({
        subject,
        set,
        key: set,
        rounds,
        queryCount,
      }),
    ),
  );
}

/** With the cost of loading for each record, so that steps can be compared. */
const perRecord = (measured: Measured): Measured => ({
  ...measured,
  rows: measured.rows.map(({ buildCpuS, buildS, ...row }) => ({
    ...row,
    loadCpuUs: (1e6 * Number(buildCpuS)) / Number(measured.options.rows),
    loadUs: (1e6 * Number(buildS)) / Number(measured.options.rows),
  })),
});

const reason = installRivals();
if (reason !== undefined) console.log(reason);
for (const { key, ...plan } of asked()) {
  const why = subjectNamed(plan.subject).missing(plan.set);
  if (why !== undefined) {
    console.log(`${plan.set}: ${why}`);
    continue;
  }
  const measured = await measure({
    ...plan,
    engines: listOf(values.engines) ?? plan.engines,
    efforts: listOf(values.efforts)?.map(Number) ?? plan.efforts,
    rounds: numberOr(values.rounds, plan.rounds),
    queryCount: numberOr(values.queries, plan.queryCount),
    rowsMax: values.rows === "" ? plan.rowsMax : Number(values.rows),
  });
  publish(values.benchmark, { ...(isGrowth ? perRecord(measured) : measured), key }, isKept);
}
