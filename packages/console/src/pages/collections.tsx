// Which collections are there, how large are they, and in which state?

import type { CollectionDetail, CollectionSummary } from "@quiverdb/protocol/shapes/collection";
import type { MetricName, TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { useState } from "preact/hooks";
import { languages, metrics } from "../choices.ts";
import {
  type Facts,
  isBehind,
  missingIndexes,
  namedStatusesOf,
  pauseFor,
  readFacts,
  statusesOf,
} from "../facts.ts";
import { ConfirmDeletion, Dialog } from "../parts/dialog.tsx";
import { bytes, count, countOf } from "../parts/format.ts";
import { Check, Select } from "../parts/inputs.tsx";
import { Failure, Show, useAction, useLoaded } from "../parts/loading.tsx";
import { Progress } from "../parts/progress.tsx";
import { Table } from "../parts/table.tsx";
import { hrefOf } from "../route.ts";
import { isSample, loadSample, sample } from "../sample/sample.ts";
import { useClient } from "../session.ts";
import { FirstVisit, SampleCard } from "./first-visit.tsx";
import { ImportDialog } from "./import-dialog.tsx";

/** Collections of a page; each costs three requests. */
const pageSize = 20;

type Row = CollectionSummary & { readonly facts?: Facts };

export function CollectionsPage() {
  const client = useClient();
  const [wanted, setWanted] = useState("");
  const [page, setPage] = useState(0);
  const [dialog, setDialog] = useState<
    "create" | { readonly remove: string } | { readonly dropped: File | undefined }
  >();
  const action = useAction();
  /** Stays after the load until the list has the sample. */
  const [sampleShare, setSampleShare] = useState<number>();
  const loaded = useLoaded(
    async (signal) => {
      const all = await client.listCollections({ signal });
      const matching = all.filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()));
      const shown = matching.slice(page * pageSize, (page + 1) * pageSize);
      const rows: Row[] = await Promise.all(
        shown.map(async (summary) => {
          if (summary.damaged) return summary;
          return { ...summary, facts: await readFacts(client, summary.name, signal) };
        }),
      );
      return { rows, matching: matching.length, total: all.length, hasSample: all.some(isSample) };
    },
    [client, wanted, page],
    (value) => pauseFor(value?.rows.flatMap(({ facts }) => facts ?? []) ?? []),
  );
  const change = async (act: () => Promise<unknown>) => {
    const isDone = await action.run(act);
    loaded.refresh();
    return isDone;
  };
  const load = async () => {
    setSampleShare(0);
    if (!(await change(() => loadSample(client, setSampleShare)))) setSampleShare(undefined);
  };
  const removeSample = () => {
    setSampleShare(undefined);
    return change(() => client.deleteCollection(sample.name));
  };
  const drop = (event: DragEvent) => {
    const dropped = event.dataTransfer?.files[0];
    if (dropped === undefined) return;
    event.preventDefault();
    if (dialog === undefined) setDialog({ dropped });
  };
  const closeDialog = () => {
    setDialog(undefined);
    loaded.refresh();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a button does the same for the keyboard
    <div class="page" onDragOver={(event) => event.preventDefault()} onDrop={drop}>
      <div class="head">
        <h1>Collections</h1>
        <div class="buttons">
          <input
            type="search"
            aria-label="Find a collection by name"
            placeholder="Find by name"
            value={wanted}
            onInput={(event) => {
              setWanted(event.currentTarget.value);
              setPage(0);
            }}
          />
          <button type="button" onClick={() => setDialog({ dropped: undefined })}>
            Import a file
          </button>
          <button type="button" class="primary" onClick={() => setDialog("create")}>
            New collection
          </button>
        </div>
      </div>
      <Failure error={action.error} />
      <Show of={loaded}>
        {({ rows, matching, total, hasSample }) => (
          <div class="stack">
            {(hasSample || sampleShare !== undefined) && (
              <SampleCard
                share={action.isRunning || !hasSample ? sampleShare : undefined}
                isRemoving={action.isRunning}
                remove={removeSample}
              />
            )}
            {total === 0 ? (
              sampleShare === undefined && (
                <FirstVisit load={load} choose={() => setDialog({ dropped: undefined })} />
              )
            ) : rows.length === 0 ? (
              <p class="card empty">No collection has this in its name.</p>
            ) : (
              <div class="card">
                <Table
                  columns={[
                    "Name",
                    "Kinds",
                    { number: "Records" },
                    { number: "Memory" },
                    { number: "Disk" },
                    "Indexes",
                  ]}
                  hasActions
                >
                  {rows.map((row) => (
                    <CollectionRow
                      key={row.name}
                      row={row}
                      change={change}
                      remove={() => setDialog({ remove: row.name })}
                    />
                  ))}
                </Table>
                {matching > pageSize && (
                  <div class="buttons">
                    <button type="button" disabled={page === 0} onClick={() => setPage(page - 1)}>
                      Previous
                    </button>
                    <span class="muted number">
                      {page * pageSize + 1} to {Math.min(matching, (page + 1) * pageSize)} of{" "}
                      {count(matching)}
                    </span>
                    <button
                      type="button"
                      disabled={(page + 1) * pageSize >= matching}
                      onClick={() => setPage(page + 1)}
                    >
                      Next
                    </button>
                  </div>
                )}
              </div>
            )}
          </div>
        )}
      </Show>
      {dialog === "create" && <CreateDialog close={closeDialog} />}
      {typeof dialog === "object" && "dropped" in dialog && (
        <ImportDialog dropped={dialog.dropped} close={closeDialog} />
      )}
      {typeof dialog === "object" && "remove" in dialog && (
        <ConfirmDeletion
          title={`Delete collection ${dialog.remove}`}
          name={dialog.remove}
          submit={() => client.deleteCollection(dialog.remove)}
          close={closeDialog}
        >
          <p>All its records, indexes and versions are deleted. Its snapshots stay.</p>
        </ConfirmDeletion>
      )}
    </div>
  );
}

function CollectionRow({
  row,
  change,
  remove,
}: {
  row: Row;
  change: (act: () => Promise<unknown>) => Promise<unknown>;
  remove: () => void;
}) {
  const client = useClient();
  const { name, description, facts } = row;
  const collection = client.collection(name);
  return (
    <tr>
      <td class="wide">
        <a href={hrefOf(["collections", name])}>{name}</a>
        {description !== undefined && <div class="muted small">{description}</div>}
      </td>
      <td>{facts && <Kinds detail={facts.detail} />}</td>
      <td class="number">{facts && count(facts.detail.vectors_count)}</td>
      <td class="number">
        {facts?.areIndexesKnown && bytes(statusesOf(facts).reduce((sum, each) => sum + each.memory_bytes, 0))}
      </td>
      <td class="number">{facts?.detail.disk_bytes !== undefined && bytes(facts.detail.disk_bytes)}</td>
      <td>{facts === undefined ? <span class="badge bad">damaged</span> : <IndexState facts={facts} />}</td>
      <td>
        <div class="buttons">
          {facts !== undefined && (
            <button
              type="button"
              class="small"
              aria-label={`${facts.detail.loaded ? "Unload" : "Load"} ${name}`}
              onClick={() => change(() => (facts.detail.loaded ? collection.unload() : collection.load()))}
            >
              {facts.detail.loaded ? "Unload" : "Load"}
            </button>
          )}
          <button type="button" class="small" aria-label={`Delete ${name}`} onClick={remove}>
            Delete
          </button>
        </div>
      </td>
    </tr>
  );
}

export function Kinds({ detail }: { detail: CollectionDetail }) {
  return (
    <>
      {detail.dense_vector.enabled && <span class="badge dense">dense {detail.dense_vector.dimension}</span>}
      {detail.sparse_vector.enabled && <span class="badge sparse">sparse</span>}
      {detail.tf_idf_options.enabled && <span class="badge text">text</span>}
    </>
  );
}

/** Which indexes are missing, and how far those are that have not everything yet. */
function IndexState({ facts }: { facts: Facts }) {
  const { loaded, name } = facts.detail;
  const missing = missingIndexes(facts);
  const behind = namedStatusesOf(facts).filter(({ status }) => isBehind(status));
  return (
    <div class="states">
      {!loaded && <span class="badge">unloaded</span>}
      {loaded && !facts.areIndexesKnown && <span class="muted small">not told to this key</span>}
      {missing.map((kind) => (
        <span key={kind} class="badge warn" title="Searches of this kind are refused until it is created.">
          no {kind} index
        </span>
      ))}
      {behind.map(({ name: index, status }) => (
        <span
          key={index}
          title={`${count(status.records_indexed)} of ${countOf(status.records_total, "record")}`}
        >
          {status.failure !== undefined && (
            <span class="badge bad" title={status.failure}>
              failing
            </span>
          )}{" "}
          {index}{" "}
          <Progress
            percent={status.percentage_complete}
            label={`${status.state === "building" ? "Building" : "Updating"} the index ${index} of ${name}`}
          />
        </span>
      ))}
      {loaded && facts.areIndexesKnown && missing.length + behind.length === 0 && (
        <span class="badge good">ready</span>
      )}
    </div>
  );
}

function CreateDialog({ close }: { close: () => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [hasDense, setDense] = useState(true);
  const [dimension, setDimension] = useState("384");
  const [metric, setMetric] = useState<MetricName>("cosine");
  const [hasSparse, setSparse] = useState(false);
  const [hasText, setText] = useState(true);
  const [language, setLanguage] = useState<TextLanguage>("english");
  const [storesText, setStoresText] = useState(true);
  const submit = async () => {
    const made = await client.createCollection({
      name,
      description: description === "" ? undefined : description,
      dense_vector: { enabled: hasDense, dimension: hasDense ? Number(dimension) : undefined },
      sparse_vector: { enabled: hasSparse },
      tf_idf_options: { enabled: hasText },
      store_raw_text: storesText,
    });
    if (hasDense) await made.createDenseIndex({ distance_metric_type: metric });
    if (hasSparse) await made.createSparseIndex();
    if (hasText) await made.createTextIndex({ language });
  };
  return (
    <Dialog
      title="New collection"
      submitLabel="Create"
      canSubmit={name !== "" && (hasDense || hasSparse || hasText)}
      submit={submit}
      close={close}
    >
      <label class="field">
        <span>Name</span>
        <input value={name} onInput={(event) => setName(event.currentTarget.value)} required autofocus />
      </label>
      <label class="field">
        <span>Description</span>
        <input value={description} onInput={(event) => setDescription(event.currentTarget.value)} />
      </label>
      <fieldset>
        <legend>What its records have; an index is created for each</legend>
        <Check label="Dense vectors" isOn={hasDense} set={setDense} />
        {hasDense && (
          <div class="row">
            <label class="field">
              <span>Dimension</span>
              <input
                type="number"
                min="1"
                value={dimension}
                onInput={(event) => setDimension(event.currentTarget.value)}
                required
              />
            </label>
            <Select label="Metric" value={metric} options={metrics} set={setMetric} />
          </div>
        )}
        <Check label="Sparse vectors" isOn={hasSparse} set={setSparse} />
        <Check label="Texts" isOn={hasText} set={setText} />
        {hasText && (
          <div class="row">
            <Select label="Language" value={language} options={languages} set={setLanguage} />
          </div>
        )}
        <Check label="Store the texts, so that they can be shown" isOn={storesText} set={setStoresText} />
      </fieldset>
    </Dialog>
  );
}
