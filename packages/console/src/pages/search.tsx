// What does a search find, how long does it take, and why are the results in this order?
//
// The address says what is asked (search-form.ts). The button writes the form into the address, and the page searches for what the address
// says: on a click, on a reload, on the way back, and for whoever gets the address.

import type { Collection } from "@quiverdb/client";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import { useLayoutEffect, useState } from "preact/hooks";
import { type Code, searchCode } from "../code.ts";
import { type Facts, missingIndexes, type TabProps } from "../facts.ts";
import {
  FilterPlan,
  FusionDrawing,
  ResultExplanation,
  Shares,
  legsOf as shownLegsOf,
  Warnings,
} from "../parts/explanation.tsx";
import { clipped, countOf, decimal, milliseconds } from "../parts/format.ts";
import { Area, Check, Choice, Field } from "../parts/inputs.tsx";
import { Failure, useAction } from "../parts/loading.tsx";
import { Snippet } from "../parts/snippet.tsx";
import { hrefOf } from "../route.ts";
import {
  addressOf,
  answerOf,
  callOf,
  type Form,
  formOf,
  isAsked,
  type Kind,
  kindsFor,
  type Leg,
  legsFor,
  legsOf,
  type Place,
  pathOf,
  placeOf,
} from "../search-form.ts";
import { useClient } from "../session.ts";

const labels: Readonly<Record<Kind, string>> = {
  dense: "Dense",
  sparse: "Sparse",
  text: "Text",
  hybrid: "Hybrid",
};

type Found = {
  readonly answer: SearchResponse;
  readonly ms: number;
  readonly kind: Kind;
  readonly plan: readonly string[];
  readonly code: Code;
};

export function SearchPage(props: TabProps) {
  const available = legsFor(props.facts);
  const missing = missingIndexes(props.facts);
  const overview = hrefOf(["collections", props.name, "overview"]);
  return (
    <div class="stack">
      {missing.length > 0 && (
        <p class="card">
          {missing.map((kind) => labels[kind]).join(" and ")} search needs an index that does not exist yet.{" "}
          <a href={overview}>Create it</a>
        </p>
      )}
      {available.length > 0 && <SearchForm {...props} available={available} />}
    </div>
  );
}

function SearchForm({ name, facts, query, available }: TabProps & { available: readonly Leg[] }) {
  const collection = useClient().collection(name);
  const { detail } = facts;
  const asked = query.toString();
  const [form, setForm] = useState<Form>(() => formOf(query, available));
  const set = (changes: Partial<Form>) => setForm((before) => ({ ...before, ...changes }));
  const action = useAction();
  const [found, setFound] = useState<Found>();
  const search = (wanted: Form) =>
    action.run(async () => {
      setFound(await execute(collection, wanted, facts));
    });
  // At once, not after the next frame: on a slow machine that would replace what was typed meanwhile.
  useLayoutEffect(() => {
    const wanted = formOf(query, available);
    setForm(wanted);
    if (isAsked(query, available)) void search(wanted);
    else setFound(undefined);
  }, [asked]);
  const submit = (event: Event) => {
    event.preventDefault();
    const address = addressOf(form);
    if (new URLSearchParams(address).toString() === asked) void search(form);
    else location.hash = hrefOf(["collections", name, "search"], address);
  };
  const { kind } = form;
  const legs = legsOf(form);
  const [hasDense, hasSparse] = [legs.includes("dense"), legs.includes("sparse")];
  const place = placeOf(action.error, form);
  const errorAt = (field: Place) => (place === field ? action.error : undefined);
  const bound = (field: keyof Form & Place) => ({
    value: String(form[field]),
    set: (value: string) => set({ [field]: value }),
    error: errorAt(field),
  });
  return (
    <div class="split reversed">
      <form class="card fields" aria-label="Search" onSubmit={submit}>
        <Choice
          label="Kind of search"
          value={kind}
          options={kindsFor(available).map((each) => [each, labels[each]] as const)}
          set={(chosen) => set({ kind: chosen })}
        />
        {kind === "hybrid" && (
          <fieldset>
            <legend>Legs and their weights</legend>
            {available.map((leg) => (
              <div key={leg} class="leg">
                <Check
                  label={leg}
                  isOn={legs.includes(leg)}
                  set={(isOn) =>
                    set({
                      legs: available.filter((each) => (each === leg ? isOn : legs.includes(each))).join(","),
                    })
                  }
                />
                <input
                  type="number"
                  min="0"
                  step="any"
                  aria-label={`Weight of ${leg}`}
                  value={form[`${leg}Weight`]}
                  disabled={!legs.includes(leg)}
                  onInput={(event) => set({ [`${leg}Weight`]: event.currentTarget.value })}
                />
              </div>
            ))}
            <Failure error={errorAt("legs") ?? errorAt("weights")} />
            <Field label="Fusion constant k" type="number" {...bound("fusionK")} />
          </fieldset>
        )}
        {legs.includes("text") && (
          <>
            <Field label="Text" {...bound("text")} placeholder="what to look for" />
            <Check
              label={'Operators: "a phrase", +must, -not, prefix*, fuzzy~1'}
              isOn={form.operators}
              set={(operators) => set({ operators })}
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
              <Field label="Id of the record" {...bound("like")} />
            ) : (
              <>
                {hasDense && (
                  <Area
                    label={`Dense: ${detail.dense_vector.dimension} numbers`}
                    {...bound("vector")}
                    placeholder="[0.12, -0.5, …]"
                  />
                )}
                {hasSparse && (
                  <Area label="Sparse: index:value" {...bound("terms")} placeholder="17:0.8 4021:0.3" />
                )}
              </>
            )}
          </fieldset>
        )}
        <Field label="Results" type="number" {...bound("topK")} />
        <Area label="Filter" {...bound("filter")} placeholder="color = 'red' and year >= 2020" />
        <Field label="As it was at (version, tag or time)" {...bound("at")} placeholder="now" />
        <Check label="Explain" isOn={form.explain} set={(explain) => set({ explain })} />
        {hasDense && (
          <details open={place === "ef" || place === "diversity" || undefined}>
            <summary>More</summary>
            <div class="fields">
              <Check label="Exact: scan all vectors" isOn={form.exact} set={(exact) => set({ exact })} />
              <Field label="Beam width (ef_search)" type="number" {...bound("ef")} />
              {kind === "dense" && <Field label="Diversity, 0 to 1" type="number" {...bound("diversity")} />}
            </div>
          </details>
        )}
        {place === undefined && <Failure error={action.error} />}
        <button type="submit" class="primary" disabled={action.isRunning}>
          Search
        </button>
      </form>
      {found === undefined ? (
        <p class="card empty">The results appear here.</p>
      ) : (
        <Results
          name={name}
          found={found}
          map={detail.dense_vector.enabled ? Object.fromEntries(query) : undefined}
        />
      )}
    </div>
  );
}

async function execute(collection: Collection, form: Form, facts: Facts): Promise<Found> {
  const { kind } = form;
  const legs = legsOf(form);
  const call = await callOf(collection, form, facts.detail.store_raw_text);
  const start = performance.now();
  const answer = await answerOf(collection, call);
  const ms = performance.now() - start;
  const { dense: denseIndex, sparse: sparseIndex, "tf-idf": textIndex } = facts.indexes;
  const plan: string[] = [];
  if (legs.includes("dense") && denseIndex !== undefined) {
    const width = form.ef === "" ? denseIndex.status.ef_search_effective : form.ef;
    const way =
      form.exact || width === undefined
        ? "all vectors are scanned"
        : `${denseIndex.status.served_by}, beam width ${width}`;
    plan.push(`dense: ${workOf(answer) ?? way}, ${denseIndex.distance_metric_type}`);
  }
  if (legs.includes("sparse") && sparseIndex !== undefined)
    plan.push(`sparse: ${sparseIndex.status.served_by}, dot product`);
  if (legs.includes("text") && textIndex !== undefined)
    plan.push(`text: ${textIndex.status.served_by}, BM25 with k1 ${textIndex.k1} and b ${textIndex.b}`);
  if (kind === "hybrid") plan.push(`fusion: the sum of weight / (${form.fusionK} + rank)`);
  const code = searchCode(collection.name, call.method, pathOf(call, collection.name), call.request);
  return { answer, ms, kind, plan, code };
}

/** What the dense leg did; undefined if the answer does not tell. */
function workOf({ legs }: SearchResponse): string | undefined {
  const work = legs?.dense;
  if (work === undefined) return undefined;
  const beam = work.beam === undefined ? "" : `, beam width ${work.beam}`;
  return `${work.way}${beam}, ${countOf(work.visited, "vector")} visited, ${countOf(work.distances, "distance")}`;
}

function Results({
  name,
  found: { answer, ms, plan, kind, code },
  map,
}: {
  name: string;
  found: Found;
  /** What the address of the map has, to light the results; absent: there is no map. */
  map: Readonly<Record<string, string>> | undefined;
}) {
  const { results, filter, warnings } = answer;
  const scoreMax = Math.max(...results.map(({ score }) => score), Number.MIN_VALUE);
  const isFused = kind === "hybrid" && shownLegsOf(results).length > 0;
  return (
    <div class="stack">
      <section class="card" aria-label="Plan">
        <p role="status">
          <b>{results.length}</b> {results.length === 1 ? "result" : "results"} in <b>{milliseconds(ms)}</b>{" "}
          <span class="muted">with the way there and back</span>{" "}
          {map !== undefined && results.length > 0 && (
            <a href={hrefOf(["collections", name, "map"], map)}>Show on the map</a>
          )}
        </p>
        {plan.map((line) => (
          <p key={line} class="muted small">
            {line}
          </p>
        ))}
        {filter && <FilterPlan filter={filter} />}
        <Warnings of={warnings} />
        <details>
          <summary class="small">Copy as TypeScript or curl</summary>
          <Snippet code={code} />
        </details>
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
