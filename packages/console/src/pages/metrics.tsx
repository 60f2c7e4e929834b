// What does the server do at the moment?
//
// The page begins with the last hour, which the server keeps, and goes on with /metrics every two seconds; what was before is for Prometheus.

import { useEffect, useRef, useState } from "preact/hooks";
import { Chart, type Series } from "../parts/chart.tsx";
import { bytes, compact, count, decimal, milliseconds } from "../parts/format.ts";
import { LoadFailure } from "../parts/loading.tsx";
import { Progress } from "../parts/progress.tsx";
import { Table } from "../parts/table.tsx";
import { type Holds, quantile, Reading, rate, readingsOf, withReading } from "../prometheus.ts";
import { useSession } from "../session.ts";

const pauseMs = 2_000;
/** Collections that a chart shows: those with the most records. */
const collectionsMax = 6;

export function MetricsPage() {
  const session = useSession();
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  const [error, setError] = useState<unknown>();
  const isOn = useRef(true);
  useEffect(() => {
    isOn.current = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (path: string) => {
      const response = await session.send(path);
      const text = await response.text();
      if (!response.ok) throw new Error(refusal(text));
      return text;
    };
    let hasHour = false;
    const read = async () => {
      try {
        if (!hasHour) {
          const hour = readingsOf(JSON.parse(await ask("/metrics/last-hour")), performance.now());
          if (isOn.current) setReadings(hour);
          hasHour = true;
        }
        const reading = new Reading(await ask("/metrics"), performance.now());
        if (isOn.current) {
          setError(undefined);
          setReadings((before) => withReading(before, reading));
        }
      } catch (thrown) {
        if (isOn.current) setError(thrown);
      }
      if (isOn.current) timer = setTimeout(read, pauseMs);
    };
    void read();
    return () => {
      isOn.current = false;
      clearTimeout(timer);
    };
  }, [session]);
  const last = readings.at(-1);
  return (
    <>
      <div class="head">
        <h1>Metrics</h1>
        <span class="muted small">the last hour, and every two seconds as long as this page is open</span>
      </div>
      <LoadFailure error={error} />
      {last === undefined ? (
        error === undefined && (
          <p class="muted" role="status">
            Loading…
          </p>
        )
      ) : (
        <>
          <Nodes last={last} />
          <Charts readings={readings} last={last} />
        </>
      )}
    </>
  );
}

function refusal(text: string): string {
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text;
  }
}

/** The nodes of a cluster, as the one that answers sees them; nothing of a server that is alone. */
function Nodes({ last }: { last: Reading }) {
  const nodes = last.of("quiver_cluster_node_alive");
  if (nodes.length === 0) return null;
  const values = (name: string) =>
    new Map(last.of(name).map(({ labels, value }) => [labels.node, value] as const));
  const positions = values("quiver_cluster_log_position");
  const catalogs = values("quiver_cluster_catalog_position");
  const copied = values("quiver_cluster_collections_copied");
  const shards = values("quiver_cluster_shards");
  const sizes = last.of("quiver_cluster_copy_size_bytes");
  const copies = last.of("quiver_cluster_copied_bytes").map(({ labels, value }) => {
    const isSame = (other: typeof labels) =>
      other.node === labels.node && other.collection === labels.collection;
    const size = sizes.find((each) => isSame(each.labels))?.value ?? 0;
    return { node: labels.node, collection: labels.collection, done: value, size };
  });
  const farthest = Math.max(0, ...positions.values());
  const shown = (value: number | undefined) => (value === undefined ? "" : count(value));
  const diverged = last.sum("quiver_cluster_collections_diverged");
  return (
    <section>
      <h2>Nodes</h2>
      <p class="muted small">
        The log acknowledges a message in {milliseconds(1_000 * last.sum("quiver_cluster_publish_seconds"))}.
        Behind: messages that another node has applied. Holds: collections, or shards of them.
      </p>
      {diverged > 0 && (
        <p role="alert">
          {count(diverged)} collections take no writes, because their replicas differ: see{" "}
          <code>quiver cluster status</code>.
        </p>
      )}
      <Table
        columns={[
          "Node",
          "State",
          { number: "Catalog" },
          { number: "Messages" },
          { number: "Behind" },
          { number: "Holds" },
          { number: "Not served" },
        ]}
      >
        {nodes.map(({ labels: { node }, value }) => {
          const position = positions.get(node);
          return (
            <tr key={node}>
              <td>{node}</td>
              <td>
                <span class={value === 1 ? "badge" : "badge warn"}>{value === 1 ? "alive" : "away"}</span>
              </td>
              <td class="number">{shown(catalogs.get(node))}</td>
              <td class="number">{shown(position)}</td>
              <td class="number">{shown(position === undefined ? undefined : farthest - position)}</td>
              <td class="number">{shown(shards.get(node))}</td>
              <td class="number">{shown(copied.get(node))}</td>
            </tr>
          );
        })}
      </Table>
      {copies.length > 0 && (
        <Table columns={["Copy of", "To", "Progress", { number: "Copied" }]}>
          {copies.map(({ node, collection, done, size }) => (
            <tr key={`${node} ${collection}`}>
              <td>{collection}</td>
              <td>{node}</td>
              <td>
                <Progress
                  percent={Math.min(99, (100 * done) / Math.max(1, size))}
                  label={`Copying ${collection} to ${node}`}
                />
              </td>
              <td class="number">{bytes(done)}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

function Charts({ readings, last }: { readings: readonly Reading[]; last: Reading }) {
  const ages = readings.map(({ atMs }) => (last.atMs - atMs) / 1_000);
  const each = (label: string, read: (reading: Reading) => number | undefined): Series => ({
    label,
    values: readings.map(read),
  });
  const between = (label: string, read: (before: Reading, after: Reading) => number | undefined): Series => ({
    label,
    values: readings.map((after, i) => (i === 0 ? undefined : read(readings[i - 1], after))),
  });
  const scaled = (value: number | undefined, by: number) => (value === undefined ? undefined : value * by);
  const perSecond = (value: number) => `${decimal(Number(value.toFixed(1)))}/s`;
  const perMinute = (value: number) => `${decimal(Number(value.toFixed(1)))} a minute`;
  const seconds = "quiver_http_request_duration_seconds";
  /** Undefined where a reading has none. */
  const sumOf = (name: string) => (reading: Reading) =>
    reading.of(name).length === 0 ? undefined : reading.sum(name);
  const largest = last
    .of("quiver_collection_records")
    .toSorted((a, b) => b.value - a.value)
    .slice(0, collectionsMax)
    .map(({ labels }) => labels.collection);
  const ofCollection = (name: string, metric: string) => (reading: Reading) =>
    reading.of(metric).find(({ labels }) => labels.collection === name)?.value;
  const kinds = [
    ...new Set(last.of(`${seconds}_count`).flatMap(({ labels }) => kindOf(labels.route) ?? [])),
  ].sort();
  const ofKind =
    (kind: string): Holds =>
    ({ route }) =>
      kindOf(route) === kind;
  /** Requests a minute that took longer. @param bound a bucket */
  const slower = (bound: string) => (a: Reading, b: Reading) =>
    60 *
    Math.max(0, rate(a, b, `${seconds}_count`) - rate(a, b, `${seconds}_bucket`, ({ le }) => le === bound));
  return (
    <div class="columns">
      {kinds.length > 0 && (
        <>
          <Chart
            title="Searches"
            about="Answered searches of each kind; a batch is one."
            ages={ages}
            show={perSecond}
            series={kinds.map((kind) =>
              between(kind, (a, b) => rate(a, b, `${seconds}_count`, ofKind(kind))),
            )}
          />
          <Chart
            title="Time of a search"
            about="99 of 100 searches of a kind took less, from their arrival to the end of the answer."
            ages={ages}
            show={milliseconds}
            series={kinds.map((kind) =>
              between(kind, (a, b) => scaled(quantile(a, b, seconds, 0.99, ofKind(kind)), 1_000)),
            )}
          />
        </>
      )}
      <Chart
        title="Requests"
        about="All of them. Refused: too many of a key at once, or they waited too long."
        ages={ages}
        show={perSecond}
        series={[
          between("answered", (a, b) => rate(a, b, `${seconds}_count`)),
          between("refused", (a, b) => rate(a, b, "quiver_requests_refused_total")),
        ]}
      />
      <Chart
        title="Time of a request"
        about="Half of all requests took less than the median."
        ages={ages}
        show={milliseconds}
        series={[
          between("median", (a, b) => scaled(quantile(a, b, seconds, 0.5), 1_000)),
          between("99 of 100", (a, b) => scaled(quantile(a, b, seconds, 0.99), 1_000)),
        ]}
      />
      <Chart
        title="Slow requests"
        about="The log names each, with its route and its time (ms)."
        ages={ages}
        show={perMinute}
        series={[between("above 100 ms", slower("0.1")), between("above 1 s", slower("1"))]}
      />
      <Chart
        title="In progress"
        about="Requests that wait longer and longer: the server has too much to do."
        ages={ages}
        show={count}
        series={[
          each("running", (reading) => reading.sum("quiver_requests_running")),
          each("waiting", (reading) => reading.sum("quiver_requests_waiting")),
        ]}
      />
      <Chart
        title="Durable commits"
        about="Writes to the disk; requests that come at once share one."
        ages={ages}
        show={perSecond}
        series={[
          between("commits", (a, b) => rate(a, b, "quiver_commits_total")),
          between("requests in them", (a, b) => rate(a, b, "quiver_commit_requests_total")),
        ]}
      />
      <Chart
        title="Memory"
        about="The process as the system counts it, with files that it has mapped; the other lines are parts of it."
        ages={ages}
        show={bytes}
        series={[
          each("process", sumOf("process_resident_memory_bytes")),
          each("indexes", sumOf("quiver_memory_index_bytes")),
          each("JavaScript", sumOf("nodejs_heap_size_used_bytes")),
          each("request bodies", sumOf("quiver_request_bodies_bytes")),
          each("unread answers", sumOf("quiver_answers_bytes")),
        ]}
      />
      <Chart
        title="Longest time slice"
        about="How long one task kept the thread that answers from all others, since this page is open."
        ages={ages}
        show={milliseconds}
        series={[
          each("since the reading before", (reading) =>
            scaled(sumOf("quiver_slice_longest_seconds")(reading), 1_000),
          ),
        ]}
      />
      {largest.length > 0 && (
        <>
          <Chart
            title="Records"
            about="Of the collections with the most."
            ages={ages}
            show={compact}
            series={largest.map((name) => each(name, ofCollection(name, "quiver_collection_records")))}
          />
          <Chart
            title="Indexed"
            about="The share of the records that all indexes have."
            ages={ages}
            show={(value) => `${(100 * value).toFixed(0)} %`}
            series={largest.map((name) => each(name, ofCollection(name, "quiver_collection_index_progress")))}
          />
        </>
      )}
    </div>
  );
}

/** The kind of search of a route: dense, sparse, text, hybrid; undefined for other routes. */
function kindOf(route: string): string | undefined {
  const [, searched, near] = /\/search\/(?:batch-)?([\w-]+)$|\/(neighbors)$/.exec(route) ?? [];
  if (near !== undefined || searched === "recommend") return "dense";
  return searched === "tf-idf" ? "text" : searched;
}
