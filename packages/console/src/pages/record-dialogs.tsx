// How are records added, changed, deleted and taken along?
//
// A record is edited as JSON, as text: it goes to the server as it is written, because JavaScript cannot hold every number that JSON can.

import { RawRecord } from "@quiverdb/client";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Facts, TabProps } from "../facts.ts";
import { recordOf, wordsOfRecord } from "../import-file.ts";
import { editable } from "../json-text.ts";
import { ConfirmDeletion, Dialog } from "../parts/dialog.tsx";
import { countOf } from "../parts/format.ts";
import { Area } from "../parts/inputs.tsx";
import { LoadFailure, useLoaded } from "../parts/loading.tsx";
import { Progress } from "../parts/progress.tsx";
import { useClient } from "../session.ts";
import { parseFilter } from "../written.ts";

/** What each of them is given. `done`: something was changed, said in words. */
type Props = { readonly name: string; readonly close: () => void; readonly done: (said: string) => void };

/** Adds a record, or changes the one of an id. @param saved called with its id */
export function RecordDialog({
  name,
  facts,
  id,
  saved,
  close,
}: Pick<TabProps, "name" | "facts"> & {
  id: string | undefined;
  saved: (id: string) => void;
  close: () => void;
}) {
  const collection = useClient().collection(name);
  const [written, setWritten] = useState<string>();
  const begun = useLoaded(
    async (signal) =>
      id === undefined ? emptyRecord(facts) : editable(await collection.getJson(id, { signal })),
    [name, id],
  );
  const text = written ?? begun.value ?? "";
  const submit = async () => {
    const given = recordOf("The record", text).id;
    if (typeof given !== "string" || given === "") throw new Error('The record has no "id".');
    if (id === undefined && (await collection.has(given)))
      throw new Error(`There is a record ${given} already. Select it in the table to edit it.`);
    if (id !== undefined && given !== id)
      throw new Error(`The id is ${given}, expected ${id}. To copy the record, add another one.`);
    try {
      await collection.upsert([new RawRecord(text)]);
    } catch (error) {
      throw new Error(wordsOfRecord(error, 0), { cause: error });
    }
    saved(given);
  };
  return (
    <Dialog
      title={id === undefined ? "Add a record" : `Edit ${id}`}
      submitLabel="Save"
      canSubmit={text !== ""}
      submit={submit}
      close={close}
    >
      <LoadFailure error={begun.error} />
      <Area label="Record (JSON)" rows={16} value={text} set={setWritten} />
      {id !== undefined && facts.detail.tf_idf_options.enabled && !facts.detail.store_raw_text && (
        <p class="small">
          This collection does not store texts. Write the text of the record again, or searches find it by its
          text no longer.
        </p>
      )}
    </Dialog>
  );
}

/** What a record of the collection can have. */
function emptyRecord({ detail }: Facts): string {
  const members = [
    '"id": ""',
    ...(detail.dense_vector.enabled ? ['"dense_values": []'] : []),
    ...(detail.sparse_vector.enabled ? ['"sparse_indices": []', '"sparse_values": []'] : []),
    ...(detail.tf_idf_options.enabled ? ['"text": ""'] : []),
    '"metadata": {}',
  ];
  return `{\n  ${members.join(",\n  ")}\n}`;
}

export function DeleteDialog({ name, id, close, done }: Props & { id: string }) {
  const collection = useClient().collection(name);
  const submit = async () => {
    await collection.delete(id);
    done(`Deleted ${id}.`);
  };
  return (
    <Dialog title="Delete a record" submitLabel="Delete" isDangerous submit={submit} close={close}>
      <p>
        The record <b class="mono">{id}</b> is deleted.
      </p>
    </Dialog>
  );
}

/** Of a dialog about all records that match. */
type OfMatches = Props & {
  /** As it is written. */
  filter: string;
  total: number;
};

/** An empty filter would be all records. */
function conditionOf(filter: string) {
  const condition = parseFilter(filter);
  if (condition === undefined) throw new Error("There is no filter.");
  return condition;
}

/** Merges a patch into the metadata of the records that match. */
export function UpdateMatchingDialog({ name, filter, total, close, done }: OfMatches) {
  const collection = useClient().collection(name);
  const [patch, setPatch] = useState("");
  const submit = async () => {
    done(
      `Changed ${countOf(await collection.updateMatching(conditionOf(filter), recordOf("The patch", patch)), "record")}.`,
    );
  };
  return (
    <Dialog
      title={`Change ${countOf(total, "record")}`}
      submitLabel="Change"
      isDangerous
      canSubmit={patch.trim() !== ""}
      submit={submit}
      close={close}
    >
      <p>
        All records that match <code>{filter}</code>. The patch is merged into their metadata: a value sets a
        field, <code>null</code> removes it.
      </p>
      <Area label="Patch (JSON)" value={patch} set={setPatch} placeholder='{"seen": true, "tags": null}' />
    </Dialog>
  );
}

export function DeleteMatchingDialog({ name, filter, total, close, done }: OfMatches) {
  const collection = useClient().collection(name);
  const submit = async () => {
    done(`Deleted ${countOf(await collection.deleteMatching(conditionOf(filter)), "record")}.`);
  };
  return (
    <ConfirmDeletion title={`Delete ${countOf(total, "record")}`} name={name} submit={submit} close={close}>
      <p>
        All records that match <code>{filter}</code>.
      </p>
    </ConfirmDeletion>
  );
}

/** Characters that are joined before the browser gets them; it keeps large files on its disk. */
const partChars = 4_000_000;

/** Saves the records that match as a file of JSON Lines. Closing it stops the export. */
export function ExportDialog({ name, filter, close }: Omit<Props, "done"> & { filter: string }) {
  const collection = useClient().collection(name);
  const [share, setShare] = useState<number>();
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const submit = async () => {
    const lines = collection.export({ filter: parseFilter(filter), signal: stop.current.signal });
    const parts: Blob[] = [];
    let [part, written] = ["", 0];
    try {
      const total = await lines.count();
      for await (const line of lines) {
        part += `${line}\n`;
        written++;
        if (part.length < partChars) continue;
        parts.push(new Blob([part]));
        part = "";
        setShare(written / total);
      }
    } finally {
      setShare(undefined);
    }
    const address = URL.createObjectURL(new Blob([...parts, part], { type: "application/jsonl" }));
    Object.assign(document.createElement("a"), { href: address, download: `${name}.jsonl` }).click();
    URL.revokeObjectURL(address);
  };
  return (
    <Dialog title="Export records" submitLabel="Export" submit={submit} close={close}>
      <p>
        {filter === "" ? (
          "All records"
        ) : (
          <>
            The records that match <code>{filter}</code>
          </>
        )}
        , as JSON Lines, which this console and <code>quiver import</code> read.
      </p>
      {share !== undefined && <Progress percent={100 * share} label={`Exporting ${name}`} />}
    </Dialog>
  );
}
