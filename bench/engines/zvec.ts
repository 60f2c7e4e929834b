// How does a benchmark use zvec?

import { join } from "node:path";
import { bytesBelow } from "../shared/files.ts";
import { type Engine, type EngineKind, type Item, m, pairsOf, rival, type Shape } from "./engine.ts";
import { sqlOf } from "./filter.ts";

/** Of the field or the vector that is searched. */
const contentName = "content";
/** Records that are inserted at once. */
const batch = 1_000;
/** Of its sparse graph: its own defaults. */
const sparse = { efConstruction: 100, beam: 300 } as const;

type Index = "f32" | "int8" | "FLAT" | "HNSW" | "FTS";

/** The module, configured once per process to use one thread and no output. */
function openModule() {
  const zvec = rival("@zvec/zvec");
  zvec.ZVecInitialize({ queryThreads: 1, optimizeThreads: 1, logLevel: zvec.ZVecLogLevel.ERROR });
  return zvec;
}

type Module = ReturnType<typeof openModule>;

/** What is inserted of a record, and asked for, in its form: an object has the dimensions of a sparse vector as keys. */
const contentOf = ({ vector, terms, text }: Item): unknown =>
  vector ?? (terms ? Object.fromEntries(pairsOf(terms)) : text);

/** The field or the vector that is indexed. */
function schemaOf(zvec: Module, { metric, dimension, language, efConstruction }: Shape, index: Index) {
  const { ZVecIndexType, ZVecMetricType, ZVecQuantizeType, ZVecDataType } = zvec;
  if (index === "FTS") {
    const isEnglish = language === "english";
    const indexParams = {
      indexType: ZVecIndexType.FTS,
      tokenizerName: "standard",
      filters: isEnglish ? ["lowercase", "stemmer"] : ["lowercase"],
      extraParams: isEnglish ? JSON.stringify({ stemmer_lang: "english" }) : "",
    };
    return { fields: [{ name: contentName, dataType: ZVecDataType.STRING, indexParams }] };
  }
  if (index === "FLAT" || index === "HNSW") {
    const indexType = ZVecIndexType[index];
    const graph = index === "HNSW" ? { m, efConstruction: sparse.efConstruction } : {};
    const indexParams = { indexType, metricType: ZVecMetricType.IP, ...graph };
    return { vectors: { name: contentName, dataType: ZVecDataType.SPARSE_VECTOR_FP32, indexParams } };
  }
  const indexParams = {
    indexType: ZVecIndexType.HNSW,
    metricType: ZVecMetricType[{ cosine: "COSINE", euclidean: "L2", dot_product: "IP" }[metric]],
    m,
    efConstruction,
    quantizeType: index === "int8" ? ZVecQuantizeType.INT8 : ZVecQuantizeType.UNDEFINED,
  };
  return { vectors: { name: contentName, dataType: ZVecDataType.VECTOR_FP32, dimension, indexParams } };
}

function open(shape: Shape, index: Index): Engine {
  const zvec = openModule();
  const { ZVecIndexType, ZVecDataType } = zvec;
  const { directory, fields, ef } = shape;
  const path = join(directory, "collection");
  const schema = schemaOf(zvec, shape, index);
  const invert = { indexType: ZVecIndexType.INVERT, enableRangeOptimization: true };
  const scalars = fields.map((name) => ({ name, dataType: ZVecDataType.DOUBLE, indexParams: invert }));
  const collection = zvec.ZVecCreateAndOpen(
    path,
    new zvec.ZVecCollectionSchema({
      name: "bench",
      ...schema,
      ...(scalars.length > 0 && { fields: [...(schema.fields ?? []), ...scalars] }),
    }),
  );
  const recordOf = (item: Item) =>
    index === "FTS"
      ? { fields: { [contentName]: item.text, ...item.fields } }
      : { vectors: { [contentName]: contentOf(item) }, ...(fields.length > 0 && { fields: item.fields }) };
  const askOf = (content: unknown, effort: number): object => {
    if (index === "FTS")
      return {
        fts: { matchString: content },
        params: { indexType: ZVecIndexType.FTS, defaultOperator: "OR" },
      };
    // A flat index takes no parameters.
    if (index === "FLAT") return { vector: content };
    const params = { indexType: ZVecIndexType.HNSW, ef: ef ?? effort };
    if (index === "HNSW") return { vector: content, params };
    return { vector: content, params: { ...params, isUsingRefiner: index === "int8" } };
  };
  return {
    add(items, first) {
      for (let at = 0; at < items.length; at += batch) {
        const records = items
          .slice(at, at + batch)
          .map((item, i) => ({ id: String(first + at + i), ...recordOf(item) }));
        const refused = collection.insertSync(records).find(({ ok }: { ok: boolean }) => !ok);
        if (refused !== undefined) throw new Error(refused.message);
      }
    },
    finish: () => collection.optimizeSync({ concurrency: 1 }),
    prepare: (query) => ({ content: contentOf(query), filters: query.filters }),
    search({ content, filters }: { content: unknown; filters: Item["filters"] }, topk, effort) {
      const tree = filters?.[effort];
      const asked = { fieldName: contentName, topk, outputFields: [], ...askOf(content, effort) };
      return collection
        .querySync(tree ? { ...asked, filter: sqlOf(tree) } : asked)
        .map(({ id }: { id: string }) => id);
    },
    // A dense collection also has the vectors.
    ...(shape.kind !== "dense" && {
      bytes: () => bytesBelow(path, (file) => index !== "FTS" || /[\\/]fts\./.test(file)),
    }),
  };
}

const kind = (index: Index, name: string, title: string, note: string, efforts?: number[]): EngineKind => ({
  name,
  title: `zvec 0.7.0${title}`,
  note: `A collection on disk. ${note} Fields have an inverted index.`,
  ...(efforts && { efforts }),
  open: (shape) => open(shape, index),
});

export const zvecF32 = kind(
  "f32",
  "zvec-f32",
  " f32",
  "One vector and one segment; its answers are whole documents.",
);
export const zvecInt8 = kind(
  "int8",
  "zvec-int8",
  " int8",
  "With its refiner, which scores what the codes find from the full vectors.",
);
export const zvecFlat = kind(
  "FLAT",
  "zvec-flat",
  ", FLAT",
  "It compares the query with every sparse vector. Bytes are those of all files.",
  [0],
);
export const zvecHnsw = kind(
  "HNSW",
  "zvec-hnsw",
  ", HNSW",
  `A graph of sparse vectors: M = ${m}, ef_construction = ${sparse.efConstruction}. Its beam is its own default, ${sparse.beam}: sparse searches find the same, in the same time, with every \`ef\` from 10 to 1,000. Bytes are those of all files.`,
  [sparse.beam],
);
export const zvecText = kind(
  "FTS",
  "zvec",
  "",
  "One text field; bytes are those of its index's files. k1 and b cannot be set. English: its stemmer; it has no stop words.",
);
