// How is a collection defined, and how are its indexes?

import type {
  IndexStatus,
  MetadataIndex,
  MetricName,
  TextLanguage,
} from "@quiverdb/protocol/shapes/index-definition";
import { useState } from "preact/hooks";
import { languages, metadataTypes, metrics } from "../choices.ts";
import { missingIndexes, statusesOf, type TabProps } from "../facts.ts";
import { ConfirmDeletion, Dialog } from "../parts/dialog.tsx";
import { bytes, count, countOf } from "../parts/format.ts";
import { Check, Field, Select } from "../parts/inputs.tsx";
import { Failure, useAction } from "../parts/loading.tsx";
import { Progress } from "../parts/progress.tsx";
import { Table } from "../parts/table.tsx";
import { useClient } from "../session.ts";

type Kind = "dense" | "sparse" | "text";

type Shown = {
  readonly key: string;
  readonly label: string;
  readonly about: string;
  readonly status: IndexStatus;
  readonly remove: () => Promise<void>;
};

type Open = { readonly create: Kind } | { readonly remove: Shown } | "field" | "delete";

export function OverviewPage({ name, facts, refresh }: TabProps) {
  const client = useClient();
  const collection = client.collection(name);
  const { detail, indexes, fields } = facts;
  const [open, setOpen] = useState<Open>();
  const action = useAction();
  const close = () => {
    setOpen(undefined);
    refresh();
  };
  const change = async (act: () => Promise<unknown>) => {
    await action.run(act);
    refresh();
  };
  const { dense, sparse, "tf-idf": text } = indexes;
  const shown: Shown[] = [
    ...(dense === undefined
      ? []
      : [
          {
            key: "dense",
            label: "Dense",
            about: `${dense.distance_metric_type}, ${dense.status.data_type ?? "codes not chosen yet"}`,
            status: dense.status,
            remove: () => collection.deleteIndex("dense"),
          },
        ]),
    ...(sparse === undefined
      ? []
      : [
          {
            key: "sparse",
            label: "Sparse",
            about: `${sparse.quantization} levels`,
            status: sparse.status,
            remove: () => collection.deleteIndex("sparse"),
          },
        ]),
    ...(text === undefined
      ? []
      : [
          {
            key: "tf-idf",
            label: "Text",
            about: `${text.language ?? "english"}, k1 ${text.k1}, b ${text.b}${text.positions ? ", positions" : ""}`,
            status: text.status,
            remove: () => collection.deleteIndex("tf-idf"),
          },
        ]),
    ...fields.map(({ field, type, status }) => ({
      key: `field ${field}`,
      label: field,
      about: `metadata, ${type}`,
      status,
      remove: () => collection.deleteMetadataIndex(field),
    })),
  ];
  const missing = missingIndexes(facts);
  return (
    <div class="stack">
      <Failure error={action.error} />
      <section class="card">
        <dl class="facts">
          <Fact label="Records" value={count(detail.vectors_count)} />
          <Fact
            label="Memory of the indexes"
            value={bytes(statusesOf(facts).reduce((sum, each) => sum + each.memory_bytes, 0))}
          />
          {detail.disk_bytes !== undefined && <Fact label="On disk" value={bytes(detail.disk_bytes)} />}
          {detail.dense_vector.enabled && (
            <Fact label="Dimension" value={String(detail.dense_vector.dimension)} />
          )}
          {detail.config.max_vectors !== null && (
            <Fact label="At most" value={countOf(detail.config.max_vectors, "record")} />
          )}
          {detail.config.shards !== undefined && <Fact label="Shards" value={String(detail.config.shards)} />}
          <Fact label="Texts" value={detail.store_raw_text ? "stored" : "not stored"} />
          <Fact label="Indexes in memory" value={detail.loaded ? "yes" : "no"} />
        </dl>
        {detail.description !== undefined && <p>{detail.description}</p>}
        <div class="buttons">
          <button
            type="button"
            disabled={action.isRunning}
            onClick={() => change(() => (detail.loaded ? collection.unload() : collection.load()))}
          >
            {detail.loaded ? "Unload" : "Load"}
          </button>
          <button type="button" onClick={() => setOpen("delete")}>
            Delete collection
          </button>
        </div>
      </section>
      <section class="card">
        <div class="head">
          <h2>Indexes</h2>
          <div class="buttons">
            {missing.map((kind) => (
              <button key={kind} type="button" onClick={() => setOpen({ create: kind })}>
                Create {kind} index
              </button>
            ))}
            <button type="button" onClick={() => setOpen("field")}>
              Index a field
            </button>
          </div>
        </div>
        {missing.length > 0 && (
          <p>
            {missing.map((kind) => (
              <span key={kind} class="badge warn">
                no {kind} index
              </span>
            ))}{" "}
            <span class="muted">Searches need one of their kind.</span>
          </p>
        )}
        {!facts.areIndexesKnown && <p class="muted">The server does not tell this key of them.</p>}
        {shown.length > 0 && (
          <Table
            columns={[
              "Index",
              "State",
              { number: "Records" },
              { number: "Memory" },
              { number: "Version" },
              "Recall",
            ]}
            hasActions
          >
            {shown.map((index) => (
              <IndexRow key={index.key} index={index} remove={() => setOpen({ remove: index })} />
            ))}
          </Table>
        )}
      </section>
      {open === "field" && <FieldDialog name={name} close={close} />}
      {open === "delete" && (
        <ConfirmDeletion
          title={`Delete collection ${name}`}
          name={name}
          submit={async () => {
            await client.deleteCollection(name);
            location.hash = "#/collections";
          }}
          close={close}
        >
          <p>All its records, indexes and versions are deleted. Its snapshots stay.</p>
        </ConfirmDeletion>
      )}
      {typeof open === "object" && "create" in open && (
        <IndexDialog name={name} kind={open.create} close={close} />
      )}
      {typeof open === "object" && "remove" in open && (
        <Dialog
          title={`Delete the index ${open.remove.label}`}
          submitLabel="Delete"
          isDangerous
          submit={open.remove.remove}
          close={close}
        >
          <p>The records stay, and the index can be created again from them.</p>
        </Dialog>
      )}
    </div>
  );
}

const Fact = ({ label, value }: { label: string; value: string }) => (
  <div>
    <dt>{label}</dt>
    <dd>{value}</dd>
  </div>
);

function IndexRow({ index, remove }: { index: Shown; remove: () => void }) {
  const { label, about, status } = index;
  return (
    <tr>
      <td class="wide">
        <b>{label}</b>
        <div class="muted small">{about}</div>
      </td>
      <td>
        {status.state === "building" ? (
          <Progress percent={status.percentage_complete} label={`Building the index ${label}`} />
        ) : (
          <span class={status.state === "ready" ? "badge good" : "badge"}>{status.state}</span>
        )}
        <div class="muted small">{status.served_by}</div>
      </td>
      <td class="number">
        {count(status.records_indexed)}
        {status.records_indexed !== status.records_total && ` of ${count(status.records_total)}`}
      </td>
      <td class="number">{bytes(status.memory_bytes)}</td>
      <td class="number">{count(status.watermark)}</td>
      <td>
        {status.recall && (
          <span
            title={`measured with ${count(status.recall.queries)} ${status.recall.queries === 1 ? "query" : "queries"}, ef ${status.recall.ef_search}`}
          >
            {(100 * status.recall.recall_at_10).toFixed(1)} % at 10
          </span>
        )}
      </td>
      <td>
        <div class="buttons">
          <button type="button" class="small" aria-label={`Delete the index ${label}`} onClick={remove}>
            Delete
          </button>
        </div>
      </td>
    </tr>
  );
}

function IndexDialog({ name, kind, close }: { name: string; kind: Kind; close: () => void }) {
  const collection = useClient().collection(name);
  const [metric, setMetric] = useState<MetricName>("cosine");
  const [language, setLanguage] = useState<TextLanguage>("english");
  const [positions, setPositions] = useState(false);
  const submit = () => {
    if (kind === "dense") return collection.createDenseIndex({ distance_metric_type: metric });
    if (kind === "sparse") return collection.createSparseIndex();
    return collection.createTextIndex({ language, positions });
  };
  return (
    <Dialog title={`Create the ${kind} index`} submitLabel="Create" submit={submit} close={close}>
      {kind === "dense" && <Select label="Metric" value={metric} options={metrics} set={setMetric} />}
      {kind === "text" && (
        <>
          <Select label="Language" value={language} options={languages} set={setLanguage} />
          <Check label="Positions of words, for phrases" isOn={positions} set={setPositions} />
        </>
      )}
      <p class="muted small">It is built in the background from the records.</p>
    </Dialog>
  );
}

function FieldDialog({ name, close }: { name: string; close: () => void }) {
  const collection = useClient().collection(name);
  const [field, setField] = useState("");
  const [type, setType] = useState<MetadataIndex["type"]>("keyword");
  return (
    <Dialog
      title="Index a field of the metadata"
      submitLabel="Create"
      canSubmit={field !== ""}
      submit={() => collection.createMetadataIndex(field, type)}
      close={close}
    >
      <Field label="Field" value={field} set={setField} placeholder="author.name" />
      <Select label="Type" value={type} options={metadataTypes} set={setType} />
    </Dialog>
  );
}
