// What must a database return, computed in the simplest way?
//
// The model of tests/model.test.ts: maps, arrays and full scans. It shares no code with the engine; the formulas of the specification are
// implemented again.

import type { VectorInput } from "@quiverdb/protocol/shapes/vector";

export type Metric = "cosine" | "euclidean" | "dot_product";
export type ModelRecord = VectorInput;
export type Ranked = { id: string; score: number }[];
export type Given = { upserted: number; deleted: number };
type StagedOperation = { kind: "upsert"; record: ModelRecord } | { kind: "delete" };

export class ModelCollection {
  records = new Map<string, ModelRecord>();
  staged: Map<string, StagedOperation> | null = null;
  /** Operations sent to the last transaction, whatever their outcome. */
  given: Given = { upserted: 0, deleted: 0 };
  version = 0;
  counts = [0];
  metric: Metric | null = null;
  hasSparse = false;
  text: { k1: number; b: number } | null = null;
  /** Types of declared fields of the metadata. */
  declared = new Map<string, string>();
  readonly maxVectors: number | null;

  constructor(maxVectors: number | null) {
    this.maxVectors = maxVectors;
  }

  /** Without what is staged. */
  copy(): ModelCollection {
    const copy = new ModelCollection(this.maxVectors);
    const { version, metric, hasSparse, text } = this;
    const records = new Map(this.records);
    const declared = new Map(this.declared);
    return Object.assign(copy, {
      records,
      version,
      counts: [...this.counts],
      metric,
      hasSparse,
      text,
      declared,
    });
  }

  #newVersion(): void {
    this.version++;
    this.counts.push(this.records.size);
  }

  /** False: rejected, nothing changed. */
  upsert(records: readonly ModelRecord[]): boolean {
    const after = new Set([...this.records.keys(), ...records.map(({ id }) => id)]);
    if (this.maxVectors !== null && after.size > this.maxVectors) return false;
    if (records.length === 0) return true;
    for (const record of records) this.records.set(record.id, record);
    this.#newVersion();
    return true;
  }

  delete(id: string): boolean {
    if (!this.records.delete(id)) return false;
    this.#newVersion();
    return true;
  }

  /** Deletes records that are there, as one version. */
  deleteAll(ids: readonly string[]): void {
    if (ids.length === 0) return;
    for (const id of ids) this.records.delete(id);
    this.#newVersion();
  }

  begin(): void {
    this.staged = new Map();
    this.given = { upserted: 0, deleted: 0 };
  }

  /** Nothing without an open transaction. */
  stageUpserts(records: readonly ModelRecord[]): void {
    if (this.staged === null) return;
    this.given.upserted += records.length;
    for (const record of records) this.staged.set(record.id, { kind: "upsert", record });
  }

  /** Nothing without an open transaction. */
  stageDelete(id: string): void {
    if (this.staged === null) return;
    this.given.deleted++;
    this.staged.set(id, { kind: "delete" });
  }

  canStageDelete(id: string): boolean {
    return this.staged?.get(id)?.kind === "upsert" || this.records.has(id);
  }

  #sizeAfterCommit(staged: ReadonlyMap<string, StagedOperation>): number {
    const ids = new Set(this.records.keys());
    for (const [id, operation] of staged) operation.kind === "upsert" ? ids.add(id) : ids.delete(id);
    return ids.size;
  }

  commit(): "committed" | "too many" {
    const staged = this.staged as Map<string, StagedOperation>;
    if (this.maxVectors !== null && this.#sizeAfterCommit(staged) > this.maxVectors) return "too many";
    for (const [id, operation] of staged) {
      if (operation.kind === "delete") this.records.delete(id);
      else this.records.set(id, operation.record);
    }
    this.staged = null;
    this.#newVersion();
    return "committed";
  }

  document(documentId: string): string[] {
    return [...this.records.values()]
      .filter((record) => record.document_id === documentId)
      .map(({ id }) => id)
      .sort();
  }

  dense(query: readonly number[]): Ranked {
    const scored: Ranked = [];
    for (const { id, dense_values } of this.records.values())
      if (dense_values)
        scored.push({ id, score: denseScore(this.metric as Metric, query, [...dense_values]) });
    return sorted(scored);
  }

  sparse(query: readonly (readonly [number, number])[]): Ranked {
    const scored: Ranked = [];
    for (const { id, sparse_indices, sparse_values } of this.records.values()) {
      if (!sparse_indices || !sparse_values) continue;
      let score = 0;
      let shares = false;
      for (const [index, weight] of query) {
        const at = sparse_indices.indexOf(index);
        if (at < 0) continue;
        shares = true;
        score += weight * (sparse_values[at] as number);
      }
      if (shares) scored.push({ id, score });
    }
    return sorted(scored);
  }

  bm25(query: readonly string[]): Ranked {
    return this.textQuery(query.map((word): Clause => ({ sign: "", kind: "word", words: [word] })));
  }

  /** A query with operators, or of words alone; the analysis must leave words as they are. */
  textQuery(clauses: readonly Clause[]): Ranked {
    const { k1, b } = this.text as { k1: number; b: number };
    const documents = [...this.records.values()]
      .filter((record) => typeof record.text === "string")
      .map((record) => ({
        id: record.id,
        words: (record.text as string).split(" ").filter((word) => word !== ""),
      }))
      .filter(({ words }) => words.length > 0);
    const n = documents.length;
    const average = documents.reduce((sum, { words }) => sum + words.length, 0) / n;
    const vocabulary = [...new Set(documents.flatMap(({ words }) => words))];
    const bm25 = (words: readonly string[], term: string) => {
      const tf = words.filter((word) => word === term).length;
      if (tf === 0) return 0;
      const df = documents.filter((document) => document.words.includes(term)).length;
      const idf = Math.log(1 + (n - df + 0.5) / (df + 0.5));
      return (idf * tf) / (tf + k1 * (1 - b + (b * words.length) / average));
    };
    const scored: Ranked = [];
    for (const { id, words } of documents) {
      const holds = (clause: Clause) =>
        clause.kind === "phrase"
          ? words.some((_, at) => clause.words.every((word, i) => words[at + i] === word))
          : expanded(clause, vocabulary).some(([term]) => words.includes(term));
      if (clauses.some((clause) => clause.sign === "+" && !holds(clause))) continue;
      if (clauses.some((clause) => clause.sign === "-" && holds(clause))) continue;
      const asked = clauses.filter((clause) => clause.sign !== "-" && holds(clause));
      if (asked.length === 0) continue;
      let score = 0;
      for (const clause of asked)
        for (const [term, weight] of expanded(clause, vocabulary)) score += weight * bm25(words, term);
      scored.push({ id, score });
    }
    return sorted(scored);
  }
}

/** One clause of a text query. A phrase has several words, the others one; a prefix or fuzzy word expands to terms. */
export type Clause = {
  readonly sign: "" | "+" | "-";
  readonly kind: "word" | "phrase" | "prefix" | "fuzzy";
  readonly words: readonly string[];
  /** Of a fuzzy word: 1 or 2. */
  readonly edits?: number;
};

/** The text of the clause in a query. */
export function clauseText({ sign, kind, words, edits }: Clause): string {
  const text = words.join(" ");
  return `${sign}${kind === "phrase" ? `"${text}"` : kind === "prefix" ? `${text}*` : kind === "fuzzy" ? `${text}~${edits}` : text}`;
}

/** The terms of a clause, with their weights. */
function expanded({ kind, words, edits = 0 }: Clause, vocabulary: readonly string[]): [string, number][] {
  const [word] = words;
  if (kind === "prefix") return vocabulary.filter((term) => term.startsWith(word)).map((term) => [term, 1]);
  if (kind === "fuzzy")
    return vocabulary
      .map((term): [string, number] => [term, editDistance(word, term)])
      .filter(([, distance]) => distance <= edits)
      .map(([term, distance]) => [term, 1 / (1 + distance)]);
  return words.map((each) => [each, 1]);
}

/** Letters inserted, deleted or replaced, or two adjacent ones swapped. */
function editDistance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) =>
    Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : j === 0 ? i : 0)),
  );
  for (let i = 1; i <= a.length; i++)
    for (let j = 1; j <= b.length; j++) {
      rows[i][j] = Math.min(
        rows[i - 1][j] + 1,
        rows[i][j - 1] + 1,
        rows[i - 1][j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  return rows[a.length][b.length];
}

function denseScore(metric: Metric, x: readonly number[], y: readonly number[]): number {
  const dot = x.reduce((sum, value, i) => sum + value * y[i], 0);
  if (metric === "dot_product") return dot;
  if (metric === "euclidean")
    return 1 / (1 + Math.sqrt(x.reduce((sum, value, i) => sum + (value - y[i]) ** 2, 0)));
  const norms = Math.sqrt(x.reduce((s, v) => s + v * v, 0)) * Math.sqrt(y.reduce((s, v) => s + v * v, 0));
  return norms === 0 ? 0 : dot / norms;
}

/** Scores within this distance count as equal: the sum of the same numbers in another order differs in the last bits. */
export const tolerance = 1e-9;

function sorted(ranked: Ranked): Ranked {
  return ranked.sort((a, b) =>
    Math.abs(a.score - b.score) <= tolerance ? (a.id < b.id ? -1 : 1) : b.score - a.score,
  );
}

/** Reciprocal rank fusion of full rankings, each cut at `depth`. A leg without a weight counts 1. */
export function fused(
  legs: readonly Ranked[],
  depth: number,
  k: number,
  weights: readonly number[] = [],
): Ranked {
  const scores = new Map<string, number>();
  for (const [l, leg] of legs.entries())
    for (const [i, { id }] of leg.slice(0, depth).entries())
      scores.set(id, (scores.get(id) ?? 0) + (weights[l] ?? 1) / (k + i + 1));
  return sorted(Array.from(scores, ([id, score]) => ({ id, score })));
}
