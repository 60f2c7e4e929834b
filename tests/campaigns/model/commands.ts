// Which sequences of commands test the model of the whole interface?

import type { OperationName } from "@quiverdb/engine/operations/operations";
import fc from "fast-check";
import { anyFilter, anyMetadata, fieldNames } from "../../../packages/engine/test/filter/any-filter.ts";
import type { Clause, Metric, ModelRecord } from "../../model.ts";

export const collectionNames = ["one", "zwei 二", "troi's.3"];
/** Words that analysis without a language does not change; some are similar to each other. */
const words = ["kappa", "kappe", "zulu", "tango", "tangos", "delta"];
const idsPerClient = 6;
export const clients = 3;
/** Ids that only one client writes, so that concurrent writes have a unique outcome. */
export const idsOf = (client: number) => Array.from({ length: idsPerClient }, (_, i) => `c${client}/v ${i}`);
export const allIds = Array.from({ length: clients }, (_, client) => idsOf(client)).flat();
export const documents = ["d1", "d 2"];

const small = fc.integer({ min: -3, max: 3 });
const vector = fc.tuple(small, small, small);
const sparse = fc.uniqueArray(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: -2, max: 3 })), {
  selector: ([index]) => index,
  maxLength: 4,
});
const text = fc.array(fc.constantFrom(...words), { maxLength: 6 }).map((list) => list.join(" "));

/** What JSON cannot say, such as minus zero, is not in it. */
const metadata = anyMetadata.map((one) => JSON.parse(JSON.stringify(one)) as Record<string, unknown>);
/** Declared as `datetime`, most operands would be refused. */
const declaredType = fc.constantFrom("keyword" as const, "number" as const, "boolean" as const);
const declaredField = fc.constantFrom(
  ...fieldNames.filter((each) => each !== "id" && each !== "document_id" && each !== ""),
);

const recordOf = (ids: readonly string[]): fc.Arbitrary<ModelRecord> =>
  fc
    .record({
      id: fc.constantFrom(...ids),
      document_id: fc.option(fc.constantFrom(...documents)),
      dense_values: fc.option(vector, { freq: 4 }),
      sparse: fc.option(sparse),
      text: fc.option(text, { freq: 3 }),
      metadata: fc.option(
        fc.oneof(
          fc.constantFrom<Record<string, unknown>>({}, { page: 1, tags: ["a", null] }, { "": { "": -1.5 } }),
          metadata,
        ),
      ),
    })
    .filter((r) => r.dense_values !== null || r.sparse !== null || r.text !== null)
    .map(({ sparse: pairs, ...r }) => ({
      ...r,
      sparse_indices: pairs?.map(([index]) => index) ?? null,
      sparse_values: pairs?.map(([, value]) => value) ?? null,
    }));

const records = fc.array(recordOf(allIds), { maxLength: 5 });
const name = fc.constantFrom(...collectionNames);
const id = fc.constantFrom(...allIds);
const kind = fc.constantFrom("dense" as const, "sparse" as const, "tf-idf" as const);

const clause: fc.Arbitrary<Clause> = fc
  .record({
    sign: fc.constantFrom("" as const, "" as const, "+" as const, "-" as const),
    kind: fc.constantFrom(
      "word" as const,
      "word" as const,
      "phrase" as const,
      "prefix" as const,
      "fuzzy" as const,
    ),
    words: fc.array(fc.constantFrom(...words), { minLength: 2, maxLength: 3 }),
    letters: fc.integer({ min: 1, max: 4 }),
    edits: fc.constantFrom(1, 2),
  })
  .map(({ sign, kind: of, words: chosen, letters, edits }) => {
    if (of === "phrase") return { sign, kind: of, words: chosen };
    const [word] = chosen;
    return { sign, kind: of, words: [of === "prefix" ? word.slice(0, letters) : word], edits };
  });

/** The operations of one of several concurrent clients. */
const streamingStep = (client: number) =>
  fc.oneof(
    fc.record({
      do: fc.constant("upsert" as const),
      records: fc.array(recordOf(idsOf(client)), { minLength: 1, maxLength: 3 }),
    }),
    fc.record({ do: fc.constant("delete" as const), id: fc.constantFrom(...idsOf(client)) }),
  );
export type StreamingStep = typeof streamingStep extends (client: number) => fc.Arbitrary<infer T>
  ? T
  : never;

const commands = {
  create: fc.record({
    name,
    max: fc.option(fc.integer({ min: 4, max: 14 }), { freq: 2 }),
    autoIndex: fc.boolean(),
  }),
  drop: fc.record({ name }),
  upsert: fc.record({ name, records }),
  delete: fc.record({
    name,
    id,
    by: fc.constantFrom<OperationName>("deleteVector", "streamingDelete", "streamingDeleteAlias"),
  }),
  together: fc.record({
    name,
    steps: fc.tuple(
      ...Array.from({ length: clients }, (_, client) => fc.array(streamingStep(client), { maxLength: 3 })),
    ),
  }),
  begin: fc.record({ name }),
  add: fc.record({ name, record: recordOf(allIds) }),
  stage: fc.record({ name, records }),
  stageDelete: fc.record({ name, id }),
  commit: fc.record({ name }),
  abort: fc.record({ name }),
  index: fc.record({
    name,
    kind,
    metric: fc.constantFrom<Metric>("cosine", "euclidean", "dot_product"),
    codes: fc.constantFrom(
      "auto" as const,
      "f32" as const,
      "f16" as const,
      "u8" as const,
      "octal" as const,
      "quaternay" as const,
      "binary" as const,
    ),
    levels: fc.constantFrom(16, 32, 64, 128, 256),
    k1: fc.constantFrom(0, 0.9, 1.2),
    b: fc.constantFrom(0, 0.4, 1),
    positions: fc.boolean(),
    recallTarget: fc.option(fc.constantFrom(0.9, 1), { freq: 2 }),
  }),
  unindex: fc.record({ name, kind }),
  unload: fc.record({ name }),
  load: fc.record({ name }),
  search: fc.record({
    name,
    topK: fc.constantFrom(1, 2, 3, 5, 100),
    vector,
    terms: sparse,
    text: fc.array(fc.constantFrom(...words, "absent"), { maxLength: 3 }),
    clauses: fc.array(clause, { minLength: 1, maxLength: 4 }),
    weight: fc.constantFrom(0, 1, 2.5),
    k: fc.constantFrom(1, 60),
  }),
  filter: fc.record({
    name,
    filter: anyFilter,
    limit: fc.constantFrom(1, 2, 5, 100),
    field: fc.constantFrom(...fieldNames),
    vector,
    terms: sparse,
    text: fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 3 }),
  }),
  deleteMatching: fc.record({ name, filter: anyFilter }),
  updateMatching: fc.record({ name, filter: anyFilter, patch: metadata }),
  patch: fc.record({ name, id, patch: metadata }),
  declare: fc.record({ name, field: declaredField, type: declaredType }),
  undeclare: fc.record({ name, field: declaredField }),
  analyze: fc.record({ name, text: fc.array(fc.constantFrom(...words), { maxLength: 4 }) }),
  recall: fc.record({ name }),
  session: fc.record({}),
  snapshot: fc.record({ name, incremental: fc.boolean() }),
  restore: fc.record({ name, pick: fc.nat(100), overwrite: fc.boolean() }),
  carrySnapshot: fc.record({ pick: fc.nat(100) }),
  dropSnapshot: fc.record({ pick: fc.nat(100) }),
  restart: fc.record({}),
  kill: fc.record({ name, records }),
  idle: fc.record({}),
} as const;

const weights: Record<keyof typeof commands, number> = {
  create: 12,
  drop: 3,
  upsert: 24,
  delete: 12,
  together: 10,
  begin: 12,
  add: 8,
  stage: 14,
  stageDelete: 9,
  commit: 12,
  abort: 3,
  index: 14,
  unindex: 3,
  unload: 3,
  load: 3,
  search: 30,
  filter: 20,
  deleteMatching: 1,
  updateMatching: 6,
  patch: 4,
  declare: 10,
  undeclare: 3,
  analyze: 3,
  recall: 3,
  session: 1,
  snapshot: 6,
  restore: 6,
  carrySnapshot: 1,
  dropSnapshot: 1,
  // Each costs the start of a process, so about one sequence in five has one.
  restart: 0.2,
  kill: 0.4,
  idle: 0.1,
};

type Kinds = {
  [Kind in keyof typeof commands]: { do: Kind } & ((typeof commands)[Kind] extends fc.Arbitrary<infer T>
    ? T
    : never);
};
export type Command = Kinds[keyof Kinds];
export type CommandOf<Kind extends keyof Kinds> = Kinds[Kind];

const command = fc.oneof(
  ...(Object.keys(commands) as (keyof typeof commands)[]).map((each) => ({
    weight: Math.round(weights[each] * 10),
    arbitrary: (commands[each] as fc.Arbitrary<object>).map((fields) => ({ do: each, ...fields }) as Command),
  })),
);

/** A sequence starts with a collection, because most commands need one. */
export const sequence: fc.Arbitrary<Command[]> = fc
  .tuple(commands.create, fc.array(command, { minLength: 15, maxLength: 40 }))
  .map(([create, rest]) => [{ do: "create", ...create }, ...rest]);
