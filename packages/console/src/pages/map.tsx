// How do the vectors of a collection lie to each other?

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { TabProps } from "../facts.ts";
import { colorsOf, type LegendEntry, lit } from "../map/colors.ts";
import type { FieldValue, Layout, MapMessage, MapStart } from "../map/messages.ts";
import { Plot } from "../map/plot.ts";
import { clipped, count, countOf } from "../parts/format.ts";
import { Area, Choice, Field } from "../parts/inputs.tsx";
import { Failure, useAction } from "../parts/loading.tsx";
import { type WalkEdges, WalkForm } from "../parts/walk.tsx";
import { hrefOf } from "../route.ts";
import { answerOf, callOf, formOf, isAsked, legsFor } from "../search-form.ts";
import { useSession } from "../session.ts";
import { parseFilter } from "../written.ts";
import { RecordPanel } from "./records.tsx";

/** Bytes of vectors that a map holds at most. */
const vectorBytesMax = 384 * 2 ** 20;
const recordsMax = 100_000;
const recordsDefault = 20_000;
const panPixels = 40;
/** Hits of a search that have a ring; all are lit. */
const ringsMax = 100;
/** Fields of a record that are shown under the pointer. */
const fieldsShown = 6;

type Records = {
  readonly ids: readonly string[];
  readonly fields: Readonly<Record<string, readonly FieldValue[]>>;
};

export function MapPage(props: TabProps) {
  const { facts } = props;
  const { dimension } = facts.detail.dense_vector;
  if (dimension === null || !facts.detail.dense_vector.enabled)
    return <p class="card empty">A map needs dense vectors, and this collection has none.</p>;
  if (facts.detail.vectors_count === 0) return <p class="card empty">There are no records to draw yet.</p>;
  return <VectorMap {...props} dimension={dimension} total={facts.detail.vectors_count} />;
}

/** The hits of the search that the address has, best first; undefined: it has none, or they are not known yet. */
function useHits({ name, facts, query }: TabProps) {
  const { client } = useSession();
  const action = useAction();
  const [hits, setHits] = useState<readonly string[]>();
  const asked = query.toString();
  useEffect(() => {
    let isOn = true;
    setHits(undefined);
    const available = legsFor(facts);
    if (available.length > 0 && isAsked(query, available))
      void action.run(async () => {
        const collection = client.collection(name);
        const form = { ...formOf(query, available), explain: false };
        const { results } = await answerOf(collection, await callOf(collection, form, false));
        if (isOn) setHits(results.map(({ id }) => id));
      });
    return () => {
      isOn = false;
    };
  }, [name, asked]);
  return { hits, error: asked === "" ? undefined : action.error };
}

function VectorMap({ dimension, total, ...props }: TabProps & { dimension: number; total: number }) {
  const { name, query } = props;
  const session = useSession();
  const { hits, error: searchError } = useHits(props);
  const most = Math.min(recordsMax, Math.floor(vectorBytesMax / (4 * dimension)));
  const [wanted, setWanted] = useState(String(Math.min(recordsDefault, most, total)));
  const [layout, setLayout] = useState<Layout>("umap");
  const [filter, setFilter] = useState("");
  /** Empty: the user wants none. */
  const [field, setField] = useState<string>();
  const [state, setState] = useState("Reading records");
  const [isDrawing, setDrawing] = useState(true);
  const [hovered, setHovered] = useState<{ readonly at: number; readonly x: number; readonly y: number }>();
  const [error, setError] = useState<unknown>();
  const [records, setRecords] = useState<Records>();
  const [legend, setLegend] = useState<readonly LegendEntry[]>([]);
  const [selected, setSelected] = useState<string>();
  const [neighbors, setNeighbors] = useState<readonly string[]>([]);
  const [edgeCount, setEdgeCount] = useState(0);
  const canvas = useRef<HTMLCanvasElement>(null);
  const plot = useRef<Plot | undefined>(undefined);
  const worker = useRef<Worker | undefined>(undefined);
  const marks = useRef<HTMLDivElement>(null);
  const positions = useRef<ReadonlyMap<string, number>>(new Map());

  const showEdges = useCallback((walk: WalkEdges) => {
    const edges = walk.flatMap(([from, to]) => {
      const ends = [positions.current.get(from), positions.current.get(to)] as const;
      return ends[0] === undefined || ends[1] === undefined ? [] : [[ends[0], ends[1]] as const];
    });
    setEdgeCount(edges.length);
    plot.current?.setEdges(edges, !matchMedia("(prefers-reduced-motion: reduce)").matches);
  }, []);

  const end = useCallback((said = "") => {
    worker.current?.terminate();
    setState(said);
    setDrawing(false);
  }, []);

  const begin = useCallback(() => {
    worker.current?.terminate();
    plot.current?.follow();
    setError(undefined);
    setSelected(undefined);
    setHovered(undefined);
    setNeighbors([]);
    showEdges([]);
    try {
      const start: MapStart = {
        url: location.origin,
        key: session.key,
        collection: name,
        dimension,
        records: Math.max(1, Math.min(most, Number(wanted) || recordsDefault, total)),
        filter: parseFilter(filter),
        layout,
      };
      const made = new Worker(new URL("../map/worker.ts", import.meta.url), { type: "module" });
      worker.current = made;
      made.onmessage = ({ data }: MessageEvent<MapMessage>) => {
        switch (data.type) {
          case "progress":
            setState(`${data.stage}, ${Math.floor(100 * data.share)} %`);
            break;
          case "records":
            setRecords({ ids: data.ids, fields: data.fields });
            setField((before) => before ?? kindField(data));
            positions.current = new Map(data.ids.map((id, i) => [id, i]));
            break;
          case "points":
            plot.current?.setPoints(data.points);
            break;
          case "done":
            end();
            break;
          case "failed":
            end();
            setError(new Error(data.message));
            break;
        }
      };
      made.onerror = ({ message }) => {
        end();
        setError(new Error(`The worker of the map failed: ${message}`));
      };
      made.postMessage(start);
      setState("Reading records");
      setDrawing(true);
    } catch (thrown) {
      end();
      setError(thrown);
    }
  }, [session, name, dimension, most, wanted, total, filter, layout]);

  // The map is drawn once by itself, and then when the form is sent.
  useEffect(() => {
    if (canvas.current === null) return;
    try {
      plot.current = new Plot(canvas.current);
    } catch (thrown) {
      end();
      setError(thrown);
      return;
    }
    const resized = new ResizeObserver(() => plot.current?.draw());
    resized.observe(canvas.current);
    begin();
    return () => {
      resized.disconnect();
      worker.current?.terminate();
      plot.current?.close();
      plot.current = undefined;
    };
  }, []);

  useEffect(() => {
    if (records === undefined) return;
    const painted = colorsOf(
      records.ids.length,
      field === undefined || field === "" ? undefined : records.fields[field],
    );
    const bright = new Set(hits?.flatMap((id) => positions.current.get(id) ?? []));
    plot.current?.setColors(hits === undefined ? painted.colors : lit(painted.colors, bright));
    setLegend(painted.legend);
  }, [records, field, hits]);

  // The marks follow the points as the view and the layout move.
  useEffect(() => {
    const drawn = plot.current;
    if (drawn === undefined) return;
    drawn.onDrawn = () => {
      for (const mark of marks.current?.children ?? []) {
        const at = positions.current.get((mark as HTMLElement).dataset.id ?? "");
        if (at === undefined) continue;
        const [x, y] = drawn.placeOf(at);
        (mark as HTMLElement).style.transform = `translate(${x}px, ${y}px)`;
      }
    };
    drawn.draw();
  }, [selected, neighbors, records, hits]);

  const select = (id: string | undefined) => {
    setSelected(id);
    setNeighbors([]);
  };
  const pointer = usePointer(plot, (i) => select(records?.ids[i]), setHovered);
  const onKeyDown = (event: KeyboardEvent) => {
    const act = keys[event.key];
    if (act === undefined || plot.current === undefined) return;
    event.preventDefault();
    act(plot.current);
  };
  const rings = [
    ...(hits ?? []).slice(0, ringsMax).map((id) => [id, "mark hit"] as const),
    ...neighbors.map((id) => [id, "mark neighbor"] as const),
    ...(selected === undefined ? [] : [[selected, "mark"] as const]),
  ];
  const marked = [...new Map(rings)].filter(([id]) => positions.current.has(id));
  const hitsHere = hits?.filter((id) => positions.current.has(id)).length ?? 0;
  return (
    <div class="stack">
      <form
        class="card row"
        aria-label="What is drawn"
        onSubmit={(event) => {
          event.preventDefault();
          begin();
        }}
      >
        <Field label={`Records, at most ${count(most)}`} type="number" value={wanted} set={setWanted} />
        <Area label="Filter" value={filter} set={setFilter} placeholder="color = 'red'" />
        <label class="field">
          <span>Colour by</span>
          <select value={field ?? ""} onChange={(event) => setField(event.currentTarget.value)}>
            <option value="">nothing</option>
            {Object.keys(records?.fields ?? {}).map((each) => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </label>
        <div class="field">
          <span>Layout</span>
          <Choice
            label="Layout"
            value={layout}
            options={[
              ["umap", "UMAP"],
              ["pca", "PCA"],
            ]}
            set={setLayout}
          />
        </div>
        <button type="submit" class="primary">
          Draw
        </button>
        {isDrawing && (
          <button type="button" onClick={() => end("Stopped")}>
            Stop
          </button>
        )}
      </form>
      <Failure error={error} />
      <Failure error={searchError} />
      {hits !== undefined && (
        <p role="status">
          {countOf(hits.length, "hit")} of{" "}
          <a href={hrefOf(["collections", name, "search"], Object.fromEntries(query))}>the search</a>
          {hitsHere < hits.length &&
            `, of which ${count(hitsHere)} ${hitsHere === 1 ? "is" : "are"} on the map`}
          . <a href={hrefOf(["collections", name, "map"])}>Light all records</a>
        </p>
      )}
      <div class={selected === undefined ? "stack" : "split"}>
        <div class="stack">
          <div class="map">
            <div
              // biome-ignore lint/a11y/noNoninteractiveTabindex: the map is moved by keyboard.
              tabIndex={0}
              role="application"
              aria-label={`Map of ${countOf(records?.ids.length ?? 0, "record")}. Arrow keys move it, plus and minus zoom, 0 shows all.`}
              onKeyDown={onKeyDown}
            >
              <canvas ref={canvas} {...pointer} />
            </div>
            <div ref={marks} aria-hidden="true">
              {marked.map(([id, style]) => (
                <span key={id} data-id={id} class={style} />
              ))}
            </div>
            {hovered !== undefined && records !== undefined && (
              <Tip
                records={records}
                {...hovered}
                isRight={hovered.x > (canvas.current?.clientWidth ?? 0) / 2}
              />
            )}
            <div class="zoom">
              <button
                type="button"
                class="small"
                aria-label="Zoom in"
                onClick={() => plot.current?.zoom(1.4)}
              >
                +
              </button>
              <button
                type="button"
                class="small"
                aria-label="Zoom out"
                onClick={() => plot.current?.zoom(1 / 1.4)}
              >
                −
              </button>
              <button type="button" class="small" aria-label="Show all" onClick={() => plot.current?.fit()}>
                ⤢
              </button>
            </div>
            <p class="state" role="status">
              {state === "" ? `${count(records?.ids.length ?? 0)} of ${countOf(total, "record")}` : state}
            </p>
          </div>
          <ul class="legend">
            {legend.map(({ label, color, count: frequency }) => (
              <li key={label}>
                <span class="swatch" style={{ background: color }} />
                {label}
                {frequency !== undefined && <span class="number"> {count(frequency)}</span>}
              </li>
            ))}
          </ul>
          <FindRecord has={(id) => positions.current.has(id)} select={select} />
          <WalkForm name={name} like={selected ?? ""} drawn={edgeCount} show={showEdges} select={select} />
        </div>
        {selected !== undefined && (
          <RecordPanel key={selected} name={name} id={selected} onNeighbors={setNeighbors} onPick={select} />
        )}
      </div>
    </div>
  );
}

/** The record under the pointer. @param isRight whether it is shown at the left of the pointer */
function Tip({
  records: { ids, fields },
  at,
  x,
  y,
  isRight,
}: {
  records: Records;
  at: number;
  x: number;
  y: number;
  isRight: boolean;
}) {
  const shown = Object.entries(fields).flatMap(([field, values]) =>
    values[at] === undefined ? [] : [[field, String(values[at])] as const],
  );
  return (
    <div
      class="tip"
      role="tooltip"
      style={{
        transform: `translate(${x}px, ${y}px) translate(${isRight ? "calc(-100% - 12px)" : "12px"}, -50%)`,
      }}
    >
      <b>{clipped(ids[at], 60)}</b>
      {shown.slice(0, fieldsShown).map(([field, value]) => (
        <div key={field}>
          <span class="muted">{field}</span> {clipped(value, 60)}
        </div>
      ))}
    </div>
  );
}

/** A field that says of which kind a record is: of few values, which many records share. */
function kindField({ ids, fields }: Records): string | undefined {
  return Object.keys(fields).find((field) => {
    const values = new Set(fields[field]);
    return values.size >= 2 && values.size <= 10 && values.size < ids.length / 10;
  });
}

/** What the keyboard has in place of a click at a point. */
function FindRecord({ has, select }: { has: (id: string) => boolean; select: (id: string) => void }) {
  const [id, setId] = useState("");
  const [isMissing, setMissing] = useState(false);
  return (
    <form
      class="row"
      aria-label="Find a record on the map"
      onSubmit={(event) => {
        event.preventDefault();
        setMissing(!has(id));
        if (has(id)) select(id);
      }}
    >
      <Field label="Id of a record on the map" value={id} set={setId} />
      <button type="submit">Select</button>
      {isMissing && (
        <p class="failure" role="alert">
          The map has no record of this id.
        </p>
      )}
    </form>
  );
}

const keys: Readonly<Record<string, (plot: Plot) => void>> = {
  ArrowLeft: (plot) => plot.move(panPixels, 0),
  ArrowRight: (plot) => plot.move(-panPixels, 0),
  ArrowUp: (plot) => plot.move(0, panPixels),
  ArrowDown: (plot) => plot.move(0, -panPixels),
  "+": (plot) => plot.zoom(1.25),
  "=": (plot) => plot.zoom(1.25),
  "-": (plot) => plot.zoom(1 / 1.25),
  "0": (plot) => plot.fit(),
};

/** A press that moves farther than this is no click. */
const clickPixels = 4;

function usePointer(
  plot: { readonly current: Plot | undefined },
  click: (i: number) => void,
  hover: (over: { at: number; x: number; y: number } | undefined) => void,
) {
  const from = useRef<{ x: number; y: number; moved: number } | undefined>(undefined);
  return {
    onPointerDown: (event: PointerEvent) => {
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
      from.current = { x: event.offsetX, y: event.offsetY, moved: 0 };
    },
    onPointerMove: ({ offsetX: x, offsetY: y }: PointerEvent) => {
      const before = from.current;
      if (before === undefined) {
        const at = plot.current?.pick(x, y);
        hover(at === undefined ? undefined : { at, x, y });
        return;
      }
      hover(undefined);
      const moved = before.moved + Math.abs(x - before.x) + Math.abs(y - before.y);
      if (moved > clickPixels) plot.current?.move(x - before.x, y - before.y);
      from.current = { x, y, moved };
    },
    onPointerUp: ({ offsetX: x, offsetY: y }: PointerEvent) => {
      const moved = from.current?.moved ?? 0;
      from.current = undefined;
      if (moved > clickPixels) return;
      const found = plot.current?.pick(x, y);
      if (found !== undefined) click(found);
    },
    onPointerLeave: () => hover(undefined),
    onWheel: (event: WheelEvent) => {
      event.preventDefault();
      plot.current?.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    },
  };
}
