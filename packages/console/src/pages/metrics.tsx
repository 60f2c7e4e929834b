// What does the server do at the moment?
//
// The page reads /metrics every two seconds and keeps the readings of the last five minutes; what was before is for Prometheus.

import { useEffect, useRef, useState } from "preact/hooks";
import { Chart, type Series } from "../parts/chart.tsx";
import { bytes, compact, count, decimal, milliseconds } from "../parts/format.ts";
import { LoadFailure } from "../parts/loading.tsx";
import { quantile, Reading, rate } from "../prometheus.ts";
import { useSession } from "../session.ts";

const pauseMs = 2_000;
const readingsMax = 150;
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
    const read = async () => {
      try {
        const response = await session.send("/metrics");
        const text = await response.text();
        if (!response.ok) throw new Error(refusal(text));
        if (isOn.current) {
          setError(undefined);
          setReadings((before) => [...before, new Reading(text, performance.now())].slice(-readingsMax));
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
        <span class="muted small">read every two seconds, as long as this page is open</span>
      </div>
      <LoadFailure error={error} />
      {last === undefined ? (
        error === undefined && (
          <p class="muted" role="status">
            Loading…
          </p>
        )
      ) : (
        <Charts readings={readings} last={last} />
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
  const seconds = "quiver_http_request_duration_seconds";
  const largest = last
    .of("quiver_collection_records")
    .toSorted((a, b) => b.value - a.value)
    .slice(0, collectionsMax)
    .map(({ labels }) => labels.collection);
  const ofCollection = (name: string, metric: string) => (reading: Reading) =>
    reading.of(metric).find(({ labels }) => labels.collection === name)?.value;
  return (
    <div class="columns">
      <Chart
        title="Requests"
        ages={ages}
        show={perSecond}
        series={[
          between("answered", (a, b) => rate(a, b, "quiver_http_requests_total")),
          between("refused", (a, b) => rate(a, b, "quiver_requests_refused_total")),
        ]}
      />
      <Chart
        title="Time of a request"
        ages={ages}
        show={milliseconds}
        series={[
          between("median", (a, b) => scaled(quantile(a, b, seconds, 0.5), 1_000)),
          between("99 of 100", (a, b) => scaled(quantile(a, b, seconds, 0.99), 1_000)),
        ]}
      />
      <Chart
        title="In progress"
        ages={ages}
        show={count}
        series={[
          each("running", (reading) => reading.sum("quiver_requests_running")),
          each("waiting", (reading) => reading.sum("quiver_requests_waiting")),
        ]}
      />
      <Chart
        title="Durable commits"
        ages={ages}
        show={perSecond}
        series={[
          between("commits", (a, b) => rate(a, b, "quiver_commits_total")),
          between("requests in them", (a, b) => rate(a, b, "quiver_commit_requests_total")),
        ]}
      />
      <Chart
        title="Memory"
        ages={ages}
        show={bytes}
        series={[
          each("process", (reading) => reading.of("process_resident_memory_bytes")[0]?.value),
          each("indexes", (reading) => reading.sum("quiver_memory_index_bytes")),
        ]}
      />
      <Chart
        title="Longest time slice"
        ages={ages}
        show={milliseconds}
        series={[
          each("since the reading before", (reading) => 1_000 * reading.sum("quiver_slice_longest_seconds")),
        ]}
      />
      {largest.length > 0 && (
        <>
          <Chart
            title="Records"
            ages={ages}
            show={compact}
            series={largest.map((name) => each(name, ofCollection(name, "quiver_collection_records")))}
          />
          <Chart
            title="Indexed"
            ages={ages}
            show={(value) => `${(100 * value).toFixed(0)} %`}
            series={largest.map((name) => each(name, ofCollection(name, "quiver_collection_index_progress")))}
          />
        </>
      )}
    </div>
  );
}
