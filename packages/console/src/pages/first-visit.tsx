// What can a user do on a server without collections, and with the sample that is loaded?

import { firstCode } from "../code.ts";
import { Progress } from "../parts/progress.tsx";
import { Snippet } from "../parts/snippet.tsx";
import { hrefOf } from "../route.ts";
import { sample } from "../sample/sample.ts";

/** Three ways to the first records. Files are dropped on the page around it. */
export function FirstVisit({ load, choose }: { load: () => void; choose: () => void }) {
  return (
    <div class="stack">
      <p>There are no collections yet. Three ways to the first one:</p>
      <div class="columns">
        <section class="card stack">
          <h2>Try the sample</h2>
          <p>
            {sample.texts} short texts with vectors and metadata, for every kind of search. They go into the
            collection <b>{sample.name}</b>, which one button removes.
          </p>
          <div class="buttons">
            <button type="button" class="primary" onClick={load}>
              Load the sample
            </button>
          </div>
        </section>
        <section class="card stack dropzone">
          <h2>Import a file</h2>
          <p>
            Drop a file of JSON Lines on this page, or choose one. Each line is a record:{" "}
            <code>{'{"id": "a", "text": "…", "dense_values": [0.1, 0.9], "metadata": {"page": 1}}'}</code>
          </p>
          <div class="buttons">
            <button type="button" onClick={choose}>
              Choose a file
            </button>
          </div>
        </section>
      </div>
      <section class="card">
        <h2>Write a program</h2>
        <p class="small muted">
          It reads the key from <code>QUIVER_API_KEY</code>: the key that you signed in with, or a{" "}
          <a href={hrefOf(["keys"])}>new one</a>.
        </p>
        <Snippet code={firstCode()} />
      </section>
    </div>
  );
}

const searchOf = (query: Readonly<Record<string, string>>): string =>
  hrefOf(["collections", sample.name, "search"], query);

/** Searches that are worth a look. */
const ideas: readonly (readonly [label: string, href: string])[] = [
  ["Texts about the way home", searchOf({ kind: "text", text: "find the way home" })],
  [
    "Like a text about owls, only from science and engineering",
    searchOf({ kind: "dense", like: "birds-2", filter: '{"area": {"in": ["science", "engineering"]}}' }),
  ],
  [
    "Snow in winter, by text and vector together",
    searchOf({ kind: "hybrid", legs: "dense,text", text: "snow in winter", like: "mountains-3" }),
  ],
  [
    "The water of the sea, in texts since 2015",
    searchOf({ kind: "text", text: "sea water", filter: '{"year": {"gte": 2015}}' }),
  ],
  ["The map of all texts", hrefOf(["collections", sample.name, "map"])],
];

/** @param share of the sample that is loaded; undefined: it is not being loaded now */
export function SampleCard({
  share,
  isRemoving,
  remove,
}: {
  share: number | undefined;
  isRemoving: boolean;
  remove: () => void;
}) {
  return (
    <section class="card stack" aria-label="Sample">
      <div class="head">
        <h2>The sample</h2>
        <div class="buttons">
          {share !== undefined ? (
            <Progress percent={100 * share} label="Loading the sample" />
          ) : (
            <button type="button" disabled={isRemoving} onClick={remove}>
              Remove the sample
            </button>
          )}
        </div>
      </div>
      {share === undefined && (
        <ul class="ideas">
          {ideas.map(([label, href]) => (
            <li key={label}>
              <a href={href}>{label}</a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
