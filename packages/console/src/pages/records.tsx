// Which records does a collection have, and what does one look like?

import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { TabProps } from "../facts.ts";
import { indented, memberOf } from "../json-text.ts";
import { Warnings } from "../parts/explanation.tsx";
import { clipped, countOf, decimal } from "../parts/format.ts";
import { Area } from "../parts/inputs.tsx";
import { Show, useLoaded } from "../parts/loading.tsx";
import { Table } from "../parts/table.tsx";
import { hrefOf } from "../route.ts";
import { useClient } from "../session.ts";
import { narrowed, parseFilter } from "../written.ts";
import { Facets } from "./facets.tsx";
import { ImportDialog } from "./import-dialog.tsx";
import {
  DeleteDialog,
  DeleteMatchingDialog,
  ExportDialog,
  RecordDialog,
  UpdateMatchingDialog,
} from "./record-dialogs.tsx";

const pageSize = 25;
const excerptChars = 120;

type Open =
  | "add"
  | "import"
  | "export"
  | "update"
  | "remove"
  | { readonly edit: string }
  | { readonly remove: string };

export function RecordsPage({ name, facts, query, refresh }: TabProps) {
  const collection = useClient().collection(name);
  const [written, setWritten] = useState("");
  const [filter, setFilter] = useState("");
  const [orderBy, setOrderBy] = useState("");
  /** Where the pages up to this one begin. */
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const [open, setOpen] = useState<Open>();
  const [said, setSaid] = useState("");
  const [fault, setFault] = useState<unknown>();
  /** Counts what makes everything here be read again. */
  const [round, setRound] = useState(0);
  const selected = query.get("id") || null;
  const cursor = cursors[cursors.length - 1];
  const page = useLoaded(
    async (signal) => {
      const [field, direction] = orderBy.split(" ");
      return collection.scroll(
        {
          limit: pageSize,
          cursor,
          filter: parseFilter(filter),
          order_by: orderBy === "" ? undefined : { field, direction: direction as "asc" | "desc" },
          include: ["metadata", "text"],
        },
        { signal },
      );
    },
    [name, cursor, filter, orderBy, round],
  );
  const total = useLoaded(
    async (signal) => ({ filter, matching: await collection.count(parseFilter(filter), { signal }) }),
    [name, filter, round],
  );
  const matching = total.value?.filter === filter ? total.value.matching : undefined;
  const select = (id?: string) => {
    location.hash = hrefOf(["collections", name, "records"], id === undefined ? {} : { id });
  };
  const again = () => {
    setRound(round + 1);
    refresh();
  };
  const show = (wanted: string) => {
    setWritten(wanted);
    try {
      parseFilter(wanted);
    } catch (error) {
      setFault(error);
      return;
    }
    setFault(undefined);
    setFilter(wanted.trim());
    setCursors([undefined]);
    setSaid("");
    again();
  };
  const done = (words: string) => {
    setSaid(words);
    setCursors([undefined]);
    again();
  };
  const close = () => setOpen(undefined);
  const common = { name, close, done };
  return (
    <div class="split">
      <div class="stack">
        <form
          class="card row"
          aria-label="Which records"
          onSubmit={(event) => {
            event.preventDefault();
            show(written);
          }}
        >
          <Area
            label="Filter"
            value={written}
            set={setWritten}
            error={fault}
            placeholder="color = 'red' and n >= 3"
          />
          {facts.fields.length > 0 && (
            <label class="field">
              <span>Order</span>
              <select
                value={orderBy}
                onChange={(event) => {
                  setOrderBy(event.currentTarget.value);
                  setCursors([undefined]);
                }}
              >
                <option value="">by id</option>
                {facts.fields.flatMap(({ field }) => [
                  <option key={`${field} asc`} value={`${field} asc`}>
                    {field}, ascending
                  </option>,
                  <option key={`${field} desc`} value={`${field} desc`}>
                    {field}, descending
                  </option>,
                ])}
              </select>
            </label>
          )}
          <button type="submit">Show</button>
        </form>
        <div class="head">
          <p role="status">
            {said}{" "}
            {matching !== undefined &&
              (filter === ""
                ? countOf(matching, "record")
                : `${countOf(matching, "record")} ${matching === 1 ? "matches" : "match"}`)}
          </p>
          <div class="buttons">
            {filter !== "" && (
              <>
                <button type="button" disabled={!matching} onClick={() => setOpen("update")}>
                  Change all that match
                </button>
                <button type="button" disabled={!matching} onClick={() => setOpen("remove")}>
                  Delete all that match
                </button>
              </>
            )}
            <button type="button" onClick={() => setOpen("add")}>
              Add a record
            </button>
            <button type="button" onClick={() => setOpen("import")}>
              Import
            </button>
            <button type="button" onClick={() => setOpen("export")}>
              Export
            </button>
          </div>
        </div>
        <Show of={page}>
          {({ vectors, next_cursor, warnings }) => (
            <div class="card">
              {vectors.length === 0 ? (
                <>
                  <p class="empty">{filter === "" ? "There are no records yet." : "No record matches."}</p>
                  <Warnings of={warnings} />
                </>
              ) : (
                <Table columns={["Id", "Text", "Metadata"]}>
                  {vectors.map(({ id = "", document_id, text, metadata }) => (
                    <tr key={id} aria-current={id === selected ? "true" : undefined}>
                      <td class="wide">
                        <a href={hrefOf(["collections", name, "records"], { id })}>{clipped(id, 60)}</a>
                        {document_id && <div class="muted small">{clipped(document_id, 60)}</div>}
                      </td>
                      <td class="wide small">{text && clipped(text, excerptChars)}</td>
                      <td class="wide">
                        {metadata && <code>{clipped(JSON.stringify(metadata), excerptChars)}</code>}
                      </td>
                    </tr>
                  ))}
                </Table>
              )}
              <div class="buttons">
                <button
                  type="button"
                  disabled={cursors.length === 1}
                  onClick={() => setCursors(cursors.slice(0, -1))}
                >
                  Previous
                </button>
                <span class="muted number">Page {cursors.length}</span>
                <button
                  type="button"
                  disabled={next_cursor === null}
                  onClick={() => next_cursor !== null && setCursors([...cursors, next_cursor])}
                >
                  Next
                </button>
              </div>
            </div>
          )}
        </Show>
      </div>
      <div class="stack">
        {selected !== null && (
          <RecordPanel key={`${selected} ${round}`} name={name} id={selected}>
            <div class="buttons">
              <button type="button" class="small" onClick={() => setOpen({ edit: selected })}>
                Edit
              </button>
              <button type="button" class="small" onClick={() => setOpen({ remove: selected })}>
                Delete
              </button>
            </div>
          </RecordPanel>
        )}
        <Facets
          name={name}
          facts={facts}
          filter={filter}
          round={round}
          choose={(field, value) => show(narrowed(filter, field, value))}
        />
      </div>
      {(open === "add" || (typeof open === "object" && "edit" in open)) && (
        <RecordDialog
          name={name}
          facts={facts}
          id={open === "add" ? undefined : open.edit}
          saved={(id) => {
            done(`Saved ${id}.`);
            select(id);
          }}
          close={close}
        />
      )}
      {typeof open === "object" && "remove" in open && (
        <DeleteDialog
          {...common}
          id={open.remove}
          done={(words) => {
            done(words);
            select();
          }}
        />
      )}
      {open === "update" && <UpdateMatchingDialog {...common} filter={filter} total={matching ?? 0} />}
      {open === "remove" && <DeleteMatchingDialog {...common} filter={filter} total={matching ?? 0} />}
      {open === "export" && <ExportDialog name={name} filter={filter} close={close} />}
      {open === "import" && (
        <ImportDialog
          dropped={undefined}
          into={name}
          close={() => {
            close();
            done("");
          }}
        />
      )}
    </div>
  );
}

/** A record with its neighbours. */
export function RecordPanel({
  name,
  id,
  onNeighbors,
  onPick,
  children,
}: {
  name: string;
  id: string;
  /** Called when they are known. */
  onNeighbors?: (ids: readonly string[]) => void;
  /** A neighbour was chosen. Default: its page. */
  onPick?: (id: string) => void;
  /** What can be done with it. */
  children?: ComponentChildren;
}) {
  const collection = useClient().collection(name);
  const record = useLoaded(
    async (signal) => {
      const json = await collection.getJson(id, { signal });
      return { ...(JSON.parse(json) as VectorRecord), metadataText: memberOf(json, "metadata") };
    },
    [name, id],
  );
  const neighbors = useLoaded(
    async (signal) => {
      const { results } = await collection.neighbors(id, { top_k: 10 }, { signal });
      onNeighbors?.(results.map((result) => result.id));
      return results;
    },
    [name, id],
  );
  const hasVector = record.value?.dense_values != null;
  return (
    <aside class="card stack" aria-label={`Record ${id}`}>
      <h2 class="mono">{clipped(id, 80)}</h2>
      {children}
      <Show of={record}>
        {({ document_id, text, metadata, metadataText = "", dense_values, sparse_values }) => (
          <>
            {document_id !== null && <p class="muted small">document {document_id}</p>}
            {text !== null && <p>{clipped(text, 2_000)}</p>}
            {metadata !== null && <pre>{indented(metadataText)}</pre>}
            {dense_values !== null && (
              <div>
                <p class="muted small">Dense vector, {dense_values.length} numbers</p>
                <Sparkline values={dense_values} />
              </div>
            )}
            {sparse_values !== null && (
              <p class="small">
                <span class="muted">Sparse vector, {sparse_values.length} values: </span>
                <code>
                  {sparse_values
                    .slice(0, 24)
                    .map(([index, value]) => `${index}:${decimal(value)}`)
                    .join(" ")}
                  {sparse_values.length > 24 && " …"}
                </code>
              </p>
            )}
          </>
        )}
      </Show>
      {hasVector && (
        <section>
          <h3>Nearest records</h3>
          <Show of={neighbors}>
            {(results) => (
              <ol class="small">
                {results.map((result) => (
                  <li key={result.id}>
                    {onPick === undefined ? (
                      <a href={hrefOf(["collections", name, "records"], { id: result.id })}>
                        {clipped(result.id, 48)}
                      </a>
                    ) : (
                      <button type="button" class="plain" onClick={() => onPick(result.id)}>
                        {clipped(result.id, 48)}
                      </button>
                    )}{" "}
                    <span class="muted number">{decimal(result.score)}</span>
                  </li>
                ))}
              </ol>
            )}
          </Show>
          <a href={hrefOf(["collections", name, "search"], { like: id })}>Search like this record</a>
        </section>
      )}
    </aside>
  );
}

const barsMax = 256;

/** The numbers of a vector as bars; of a long one the average of neighbouring numbers. */
function Sparkline({ values }: { values: readonly number[] }) {
  const bars = Math.min(barsMax, values.length);
  const means = Array.from({ length: bars }, (_, i) => {
    const from = Math.floor((i * values.length) / bars);
    const to = Math.max(from + 1, Math.floor(((i + 1) * values.length) / bars));
    return values.slice(from, to).reduce((sum, value) => sum + value, 0) / (to - from);
  });
  const largest = Math.max(...means.map(Math.abs), Number.MIN_VALUE);
  const path = means.map((mean, i) => `M${i} 0h0.8v${(-20 * mean) / largest}h-0.8z`).join("");
  return (
    <svg class="sparkline" viewBox={`0 -21 ${bars} 42`} preserveAspectRatio="none" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}
