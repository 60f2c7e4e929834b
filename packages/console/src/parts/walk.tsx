// Which way does a search take through the graph, and how is it asked for?

import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import { useLayoutEffect, useState } from "preact/hooks";
import { useClient } from "../session.ts";
import { parseVector } from "../written.ts";
import { clipped, count, countOf, decimal } from "./format.ts";
import { Field } from "./inputs.tsx";
import { Failure, useAction } from "./loading.tsx";

const beamDefault = 64;
const resultsShown = 10;

type Found = Pick<SearchResponse, "results" | "legs" | "walk">;

/** The visits of a walk and those that led to them, by the ids of their records, in order. */
export type WalkEdges = readonly (readonly [from: string, to: string])[];

/** The form of a search whose way is shown. @param like a record that is searched like, if nothing else is written */
export function WalkForm({
  name,
  like,
  drawn,
  show,
  select,
}: {
  name: string;
  like: string;
  /** Edges that are on the map. */
  drawn: number;
  show: (edges: WalkEdges) => void;
  select: (id: string) => void;
}) {
  const collection = useClient().collection(name);
  const [query, setQuery] = useState("");
  const [beam, setBeam] = useState(String(beamDefault));
  const [found, setFound] = useState<Found>();
  const action = useAction();
  useLayoutEffect(() => {
    if (like !== "") setQuery(like);
  }, [like]);
  const search = async () => {
    setFound(undefined);
    show([]);
    const options = {
      top_k: resultsShown,
      // Without a beam of its own, a search of a small collection compares all vectors.
      ef_search: Number(beam) || beamDefault,
      explain: true,
      walk: true,
    };
    const answer = query.trim().startsWith("[")
      ? await collection.search.dense({ ...options, query_vector: parseVector(query) })
      : await collection.neighbors(query, options);
    setFound(answer);
    show(edgesOf(answer.walk));
  };
  return (
    <section class="card stack" aria-label="The way of a search">
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void action.run(search);
        }}
      >
        <Field
          label="Search like a record (its id), or for a vector"
          value={query}
          set={setQuery}
          placeholder="note-00012 or [0.1, 0.2]"
        />
        <Field label="Beam width" type="number" value={beam} set={setBeam} />
        <button type="submit" disabled={action.isRunning || query === ""}>
          Show the way
        </button>
        {found !== undefined && (
          <button
            type="button"
            onClick={() => {
              setFound(undefined);
              show([]);
            }}
          >
            Clear
          </button>
        )}
      </form>
      <Failure error={action.error} />
      {found !== undefined && (
        <>
          <p role="status">{wayOf(found, drawn)}</p>
          <ol class="small">
            {found.results.map(({ id, score }) => (
              <li key={id}>
                <button type="button" class="plain" onClick={() => select(id)}>
                  {clipped(id, 48)}
                </button>{" "}
                <span class="muted number">{decimal(score)}</span>
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

function edgesOf(walk: SearchResponse["walk"]): WalkEdges {
  const visits = walk?.visits ?? [];
  return visits.flatMap(({ id, from }) => {
    const origin = from === null ? null : visits[from].id;
    return id === null || origin === null ? [] : [[origin, id] as const];
  });
}

function wayOf({ legs, walk }: Found, drawn: number): string {
  const work = legs?.dense;
  if (work === undefined || walk === undefined) return "The way of a search is not told to this key.";
  if (work.beam === undefined)
    return `There is no graph to follow yet: the search compared ${work.visited === 1 ? "the only vector" : `all ${count(work.visited)} vectors`}.`;
  const cut = walk.is_cut ? ` (of its first ${countOf(walk.visits.length, "visit")})` : "";
  return `With a beam of ${count(work.beam)} the search visited ${countOf(work.visited, "vector")} and computed ${countOf(work.distances, "distance")}. ${count(drawn)} of its steps ${drawn === 1 ? "is" : "are"} on the map${cut}.`;
}
