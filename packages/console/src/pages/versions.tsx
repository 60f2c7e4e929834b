// How has a collection grown, version by version?

import type { Version } from "@quiverdb/protocol/shapes/version";
import { useState } from "preact/hooks";
import type { TabProps } from "../facts.ts";
import { count, countOf, dateTime } from "../parts/format.ts";
import { Show, useLoaded } from "../parts/loading.tsx";
import { Table } from "../parts/table.tsx";
import { hrefOf } from "../route.ts";
import { useClient } from "../session.ts";

const pageSize = 100;

export function VersionsPage({ name }: TabProps) {
  const collection = useClient().collection(name);
  const [wanted, setWanted] = useState(pageSize);
  const loaded = useLoaded(
    async (signal) => {
      const page = await collection.versions({ limit: wanted }, { signal });
      return {
        versions: page.versions,
        current: page.current_version,
        oldest: page.oldest_readable,
        tags: page.tags,
      };
    },
    [name, wanted],
    4_000,
  );
  return (
    <Show of={loaded}>
      {({ versions, current, oldest, tags }) => (
        <div class="stack">
          <section class="card">
            <h2>Records over time</h2>
            <TimeLine versions={versions} current={current} />
          </section>
          <Past name={name} versions={versions} current={current} oldest={oldest} />
          <section class="card">
            <Table
              columns={[{ number: "Version" }, "Time", { number: "Records" }, { number: "Change" }, "Hash"]}
            >
              {versions.map((version, i) => (
                <tr key={version.version_number}>
                  <td class="number">
                    {version.version_number === current && <span class="badge good">current</span>}{" "}
                    {tags
                      .filter((tag) => tag.version === version.version_number)
                      .map((tag) => (
                        <span key={tag.name} class="badge">
                          {tag.name}
                        </span>
                      ))}{" "}
                    {count(version.version_number)}
                  </td>
                  <td class="time">{dateTime(version.timestamp)}</td>
                  <td class="number">{count(version.vector_count)}</td>
                  <td class="number">{changeOf(version, versions[i + 1])}</td>
                  <td>
                    <code title={version.hash}>{version.hash.slice(0, 12)}</code>
                  </td>
                </tr>
              ))}
            </Table>
            {versions.length === wanted && (
              <button type="button" onClick={() => setWanted(wanted + pageSize)}>
                Older versions
              </button>
            )}
          </section>
        </div>
      )}
    </Show>
  );
}

/** Chooses a readable version, compares it with the current one, and leads to a search in it. */
function Past({
  name,
  versions,
  current,
  oldest,
}: {
  name: string;
  versions: readonly Version[];
  current: number;
  oldest: number;
}) {
  const collection = useClient().collection(name);
  const [chosen, setChosen] = useState(current);
  const number = Math.min(current, Math.max(oldest, chosen));
  const version = versions.find(({ version_number }) => version_number === number);
  const changes = useLoaded(
    async (signal) =>
      number === current ? undefined : collection.diff(number, current, { signal }).counts(),
    [name, number, current],
  );
  if (oldest === current)
    return (
      <p class="card">
        Only the current version can be read. <code>config.history</code> keeps earlier ones, and a tag keeps
        one.
      </p>
    );
  return (
    <section class="card" aria-label="Earlier version">
      <h2>As it was</h2>
      <input
        type="range"
        aria-label="Version"
        min={oldest}
        max={current}
        value={number}
        onInput={(event) => setChosen(Number(event.currentTarget.value))}
      />
      <p role="status">
        Version <b>{count(number)}</b>
        {version !== undefined && (
          <>
            , {dateTime(version.timestamp)}, {countOf(version.vector_count, "record")}
          </>
        )}
        {changes.value !== undefined && (
          <>
            ; since then {count(changes.value.added)} added, {count(changes.value.changed)} changed,{" "}
            {count(changes.value.removed)} removed
          </>
        )}
        . <a href={hrefOf(["collections", name, "search"], { at: String(number) })}>Search in it</a>
      </p>
    </section>
  );
}

function changeOf(version: Version, before: Version | undefined): string {
  if (before === undefined) return "";
  const change = version.vector_count - before.vector_count;
  return change > 0 ? `+${count(change)}` : change < 0 ? `−${count(-change)}` : "±0";
}

const [width, height] = [1000, 180];
const margin = { left: 12, right: 12, top: 18, bottom: 24 };

/** Steps of the number of records; a dot for each version. @param versions newest first */
function TimeLine({ versions, current }: { versions: readonly Version[]; current: number }) {
  const oldestFirst = versions.toReversed();
  const [first] = oldestFirst;
  const last = versions[0];
  if (first === undefined) return null;
  const seconds = Math.max(1, last.timestamp - first.timestamp);
  const most = Math.max(1, ...versions.map((version) => version.vector_count));
  const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
  // Versions of one second are spread over it.
  const sameSecond = Map.groupBy(oldestFirst, (version) => version.timestamp);
  const xOf = (version: Version) => {
    const group = sameSecond.get(version.timestamp) ?? [];
    const share = group.indexOf(version) / Math.max(1, group.length);
    return margin.left + (inner.width * (version.timestamp - first.timestamp + share)) / (seconds + 1);
  };
  const yOf = ({ vector_count }: Version) => margin.top + inner.height * (1 - vector_count / most);
  const bottom = height - margin.bottom;
  const steps = oldestFirst
    .map((version, i) => `${i === 0 ? "" : `H${xOf(version)}`}V${yOf(version)}`)
    .join("");
  return (
    <svg
      class="timeline"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`${countOf(versions.length, "version")} from ${dateTime(first.timestamp)} to ${dateTime(last.timestamp)}`}
    >
      <path class="step" d={`M${xOf(first)} ${bottom}${steps}H${width - margin.right}V${bottom}Z`} />
      {oldestFirst.map((version) => (
        <circle
          key={version.version_number}
          class={version.version_number === current ? "current" : ""}
          cx={xOf(version)}
          cy={yOf(version)}
          r={versions.length > 60 ? 3 : 5}
        >
          <title>
            version {version.version_number}, {dateTime(version.timestamp)},{" "}
            {countOf(version.vector_count, "record")}
          </title>
        </circle>
      ))}
      <text x={margin.left} y={height - 6}>
        {dateTime(first.timestamp)}
      </text>
      <text x={width - margin.right} y={height - 6} text-anchor="end">
        {dateTime(last.timestamp)}
      </text>
      <text x={margin.left} y={12}>
        {countOf(most, "record")}
      </text>
    </svg>
  );
}
