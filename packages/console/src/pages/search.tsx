// What does a search find, how long does it take, and why are the results in this order?

import type { Collection } from "@quiverdb/client";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import { useEffect, useState } from "preact/hooks";
import type { Facts, TabProps } from "../facts.ts";
import {
  FilterPlan,
  FusionDrawing,
  legsOf,
  ResultExplanation,
  Shares,
  Warnings,
} from "../parts/explanation.tsx";
import { clipped, countOf, decimal, milliseconds } from "../parts/format.ts";
import { Area, Check, Choice, Field } from "../parts/inputs.tsx";
import { Failure, useAction } from "../parts/loading.tsx";
import { hrefOf } from "../route.ts";
import { useClient } from "../session.ts";
import { parseFilter, parseTerms, parseVector } from "../written.ts";

type Kind = "dense" | "sparse" | "text" | "hybrid";
type Source = "like" | "written";

type Form = {
  readonly kind: Kind;
  readonly source: Source;
  readonly like: string;
  readonly vector: string;
  readonly terms: string;
  readonly text: string;
  readonly hasOperators: boolean;
  readonly usesDense: boolean;
  readonly usesSparse: boolean;
  readonly usesText: boolean;
  readonly weights: Readonly<Record<"dense" | "sparse" | "text", string>>;
  readonly fusionK: string;
  readonly topK: string;
  readonly filter: string;
  readonly explain: boolean;
  readonly exact: boolean;
  readonly ef: string;
  readonly diversity: string;
};

type Found = {
  readonly answer: SearchResponse;
  readonly ms: number;
  readonly kind: Kind;
  readonly plan: readonly string[];
};

export function SearchPage({ name, facts, query }: TabProps) {
  const collection = useClient().collection(name);
  const { detail } = facts;
  const kinds = kindsOf(facts);
  const like = query.get("like") ?? "";
  const [form, setForm] = useState<Form>(() => ({
    kind: like === "" && detail.tf_idf_options.enabled ? "text" : (kinds[0]?.[0] ?? "dense"),
    source: "like",
    like,
    vector: "",
    terms: "",
    text: "",
    hasOperators: false,
    usesDense: detail.dense_vector.enabled,
    usesSparse: detail.sparse_vector.enabled && !detail.tf_idf_options.enabled,
    usesText: detail.tf_idf_options.enabled,
    weights: { dense: "1", sparse: "1", text: "1" },
    fusionK: "60",
    topK: "10",
    filter: "",
    explain: true,
    exact: false,
    ef: "",
    diversity: "",
  }));
  const set = (changes: Partial<Form>) => setForm((before) => ({ ...before, ...changes }));
  const action = useAction();
  const [found, setFound] = useState<Found>();
  const search = () =>
    action.run(async () => {
      setFound(await execute(collection, form, facts));
    });
  // Only when the page was opened for a record.
  useEffect(() => {
    if (like !== "") void search();
  }, []);
  const { kind } = form;
  const isHybrid = kind === "hybrid";
  const hasDense = kind === "dense" || (isHybrid && form.usesDense);
  const hasSparse = kind === "sparse" || (isHybrid && form.usesSparse);
  const hasText = kind === "text" || (isHybrid && form.usesText);
  return (
    <div class="split reversed">
      <form
        class="card fields"
        aria-label="Search"
        onSubmit={(event) => {
          event.preventDefault();
          void search();
        }}
      >
        <Choice label="Kind of search" value={kind} options={kinds} set={(chosen) => set({ kind: chosen })} />
        {isHybrid && (
          <fieldset>
            <legend>Legs and their weights</legend>
            {(["dense", "sparse", "text"] as const).map((leg) => {
              const key = ({ dense: "usesDense", sparse: "usesSparse", text: "usesText" } as const)[leg];
              return (
                <div key={leg} class="leg">
                  <Check label={leg} isOn={form[key]} set={(isOn) => set({ [key]: isOn })} />
                  <input
                    type="number"
                    min="0"
                    step="any"
                    aria-label={`Weight of ${leg}`}
                    value={form.weights[leg]}
                    disabled={!form[key]}
                    onInput={(event) =>
                      set({ weights: { ...form.weights, [leg]: event.currentTarget.value } })
                    }
                  />
                </div>
              );
            })}
            <Field
              label="Fusion constant k"
              type="number"
              value={form.fusionK}
              set={(fusionK) => set({ fusionK })}
            />
          </fieldset>
        )}
        {hasText && (
          <>
            <Field
              label="Text"
              value={form.text}
              set={(text) => set({ text })}
              placeholder="what to look for"
            />
            <Check
              label={'Operators: "a phrase", +must, -not, prefix*, fuzzy~1'}
              isOn={form.hasOperators}
              set={(hasOperators) => set({ hasOperators })}
            />
          </>
        )}
        {(hasDense || hasSparse) && (
          <fieldset>
            <legend>Vector of the query</legend>
            <Choice
              label="Vector of the query"
              value={form.source}
              options={[
                ["like", "Like a record"],
                ["written", "Written"],
              ]}
              set={(source) => set({ source })}
            />
            {form.source === "like" ? (
              <Field label="Id of the record" value={form.like} set={(id) => set({ like: id })} />
            ) : (
              <>
                {hasDense && (
                  <Area
                    label={`Dense: ${detail.dense_vector.dimension} numbers`}
                    value={form.vector}
                    set={(vector) => set({ vector })}
                    placeholder="[0.12, -0.5, …]"
                  />
                )}
                {hasSparse && (
                  <Area
                    label="Sparse: index:value"
                    value={form.terms}
                    set={(terms) => set({ terms })}
                    placeholder="17:0.8 4021:0.3"
                  />
                )}
              </>
            )}
          </fieldset>
        )}
        <Field label="Results" type="number" value={form.topK} set={(topK) => set({ topK })} />
        <Area
          label="Filter"
          value={form.filter}
          set={(filter) => set({ filter })}
          placeholder='{"color": "red", "year": {"gte": 2020}}'
        />
        <Check label="Explain" isOn={form.explain} set={(explain) => set({ explain })} />
        {hasDense && (
          <details>
            <summary>More</summary>
            <div class="fields">
              <Check label="Exact: scan all vectors" isOn={form.exact} set={(exact) => set({ exact })} />
              <Field label="Beam width (ef_search)" type="number" value={form.ef} set={(ef) => set({ ef })} />
              {kind === "dense" && (
                <Field
                  label="Diversity, 0 to 1"
                  type="number"
                  value={form.diversity}
                  set={(diversity) => set({ diversity })}
                />
              )}
            </div>
          </details>
        )}
        <Failure error={action.error} />
        <button type="submit" class="primary" disabled={action.isRunning}>
          Search
        </button>
      </form>
      {found === undefined ? (
        <p class="card empty">
          {kinds.length === 0
            ? "This collection has no index yet; create one first."
            : "The results appear here."}
        </p>
      ) : (
        <Results name={name} found={found} />
      )}
    </div>
  );
}

function kindsOf({ detail }: Facts): readonly (readonly [Kind, string])[] {
  const single: (readonly [Kind, string])[] = [];
  if (detail.dense_vector.enabled) single.push(["dense", "Dense"]);
  if (detail.sparse_vector.enabled) single.push(["sparse", "Sparse"]);
  if (detail.tf_idf_options.enabled) single.push(["text", "Text"]);
  return single.length > 1 ? [...single, ["hybrid", "Hybrid"]] : single;
}

const numberOf = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));

async function execute(collection: Collection, form: Form, facts: Facts): Promise<Found> {
  const { kind, source } = form;
  const isHybrid = kind === "hybrid";
  const filter: Filter | undefined = parseFilter(form.filter);
  const common = {
    top_k: numberOf(form.topK),
    filter,
    explain: form.explain,
    return_raw_text: facts.detail.store_raw_text,
  };
  const dense = { exact: form.exact, ef_search: numberOf(form.ef) };
  const syntax = form.hasOperators ? ("operators" as const) : undefined;
  const wantsDense = kind === "dense" || (isHybrid && form.usesDense);
  const wantsSparse = kind === "sparse" || (isHybrid && form.usesSparse);
  const example =
    source === "like" && (isHybrid || kind === "sparse") && (wantsDense || wantsSparse)
      ? await collection.get(form.like)
      : undefined;
  const vectorOf = () => {
    if (source === "written") return parseVector(form.vector);
    if (example?.dense_values) return example.dense_values;
    throw new Error(`The record ${form.like} has no dense vector.`);
  };
  const termsOf = () => {
    if (source === "written") return parseTerms(form.terms);
    if (example?.sparse_values) return example.sparse_values;
    throw new Error(`The record ${form.like} has no sparse vector.`);
  };
  const ask = (): Promise<SearchResponse> => {
    if (kind === "text") return collection.search.text({ ...common, query: form.text, syntax });
    if (kind === "sparse") return collection.search.sparse({ ...common, query_terms: termsOf() });
    if (kind === "dense") {
      const rest = { ...common, ...dense, diversity: numberOf(form.diversity) };
      return source === "like"
        ? collection.search.recommend({ ...rest, positive: [form.like] })
        : collection.search.dense({ ...rest, query_vector: parseVector(form.vector) });
    }
    return collection.search.hybrid({
      ...common,
      ...dense,
      ...(form.usesDense && { query_vector: vectorOf() }),
      ...(form.usesSparse && { query_terms: termsOf() }),
      ...(form.usesText && { query_text: form.text, syntax }),
      fusion_constant_k: numberOf(form.fusionK),
      fusion_weights: {
        dense: numberOf(form.weights.dense),
        sparse: numberOf(form.weights.sparse),
        text: numberOf(form.weights.text),
      },
    });
  };
  const start = performance.now();
  const answer = await ask();
  const ms = performance.now() - start;
  const { dense: denseIndex, sparse: sparseIndex, "tf-idf": textIndex } = facts.indexes;
  const plan: string[] = [];
  if (wantsDense && denseIndex !== undefined) {
    const width = dense.ef_search ?? denseIndex.status.ef_search_effective;
    const way =
      form.exact || width === undefined
        ? "all vectors are scanned"
        : `${denseIndex.status.served_by}, beam width ${width}`;
    plan.push(`dense: ${workOf(answer) ?? way}, ${denseIndex.distance_metric_type}`);
  }
  if (wantsSparse && sparseIndex !== undefined)
    plan.push(`sparse: ${sparseIndex.status.served_by}, dot product`);
  if ((kind === "text" || (isHybrid && form.usesText)) && textIndex !== undefined)
    plan.push(`text: ${textIndex.status.served_by}, BM25 with k1 ${textIndex.k1} and b ${textIndex.b}`);
  if (isHybrid) plan.push(`fusion: the sum of weight / (${form.fusionK} + rank)`);
  return { answer, ms, kind, plan };
}

/** What the dense leg did; undefined if the answer does not tell. */
function workOf({ legs }: SearchResponse): string | undefined {
  const work = legs?.dense;
  if (work === undefined) return undefined;
  const beam = work.beam === undefined ? "" : `, beam width ${work.beam}`;
  return `${work.way}${beam}, ${countOf(work.visited, "vector")} visited, ${countOf(work.distances, "distance")}`;
}

function Results({ name, found: { answer, ms, plan, kind } }: { name: string; found: Found }) {
  const { results, filter, warnings } = answer;
  const scoreMax = Math.max(...results.map(({ score }) => score), Number.MIN_VALUE);
  const isFused = kind === "hybrid" && legsOf(results).length > 0;
  return (
    <div class="stack">
      <section class="card" aria-label="Plan">
        <p role="status">
          <b>{results.length}</b> {results.length === 1 ? "result" : "results"} in <b>{milliseconds(ms)}</b>{" "}
          <span class="muted">with the way there and back</span>
        </p>
        {plan.map((line) => (
          <p key={line} class="muted small">
            {line}
          </p>
        ))}
        {filter && <FilterPlan filter={filter} />}
        <Warnings of={warnings} />
      </section>
      {isFused && (
        <section class="card">
          <h2>How the fusion made the order</h2>
          <FusionDrawing results={results} />
        </section>
      )}
      {results.length > 0 && (
        <section class="card" aria-label="Results">
          {results.map(({ id, score, text, document_id, explanation }, i) => (
            <article key={id} class="result">
              <div class="line">
                <span class="muted number">{i + 1}.</span>
                <a href={hrefOf(["collections", name, "records"], { id })}>{clipped(id, 80)}</a>
                {document_id !== null && document_id !== id && (
                  <span class="muted small">{clipped(document_id, 60)}</span>
                )}
                <span class="score number">{decimal(score)}</span>
              </div>
              {explanation && <Shares explanation={explanation} largest={scoreMax} />}
              {text !== null && <p class="small">{clipped(text, 320)}</p>}
              {explanation && (
                <details>
                  <summary class="small">Why</summary>
                  <ResultExplanation explanation={explanation} />
                </details>
              )}
            </article>
          ))}
        </section>
      )}
    </div>
  );
}
