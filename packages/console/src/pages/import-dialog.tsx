// How does a user bring a file into a collection?

import { useEffect, useRef, useState } from "preact/hooks";
import { importFile, nameOfFile } from "../import-file.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Field } from "../parts/inputs.tsx";
import { Progress } from "../parts/progress.tsx";
import { hrefOf } from "../route.ts";
import { useClient } from "../session.ts";

/** Closing it stops the import. @param dropped the file to begin with. @param into the collection to begin with; default: that of the file */
export function ImportDialog({
  dropped,
  into,
  close,
}: {
  dropped: File | undefined;
  into?: string;
  close: () => void;
}) {
  const client = useClient();
  const [file, setFile] = useState(dropped);
  const [name, setName] = useState(into ?? (dropped === undefined ? "" : nameOfFile(dropped.name)));
  const [share, setShare] = useState<number>();
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const choose = (chosen: File | undefined) => {
    setFile(chosen);
    if (chosen !== undefined && into === undefined) setName(nameOfFile(chosen.name));
  };
  const submit = async () => {
    if (file === undefined) return;
    setShare(0);
    try {
      await importFile(client, name, file, setShare, stop.current.signal);
    } finally {
      setShare(undefined);
    }
    location.hash = hrefOf(["collections", name, "records"]);
  };
  return (
    <Dialog
      title="Import a file"
      submitLabel="Import"
      canSubmit={file !== undefined && name !== ""}
      submit={submit}
      close={close}
    >
      <p class="small">
        JSON Lines: each line is a record, as <code>quiver export</code> writes it. The command{" "}
        <code>quiver import</code> takes other formats, too.
      </p>
      <label class="field">
        <span>File</span>
        <input type="file" onChange={(event) => choose(event.currentTarget.files?.[0])} />
      </label>
      {file !== undefined && file === dropped && (
        <p>
          Dropped: <b>{file.name}</b>
        </p>
      )}
      <Field label="Collection" value={name} set={setName} />
      <p class="muted small">
        If it does not exist, it is created with what the first records have: dense vectors, sparse vectors,
        texts.
      </p>
      {share !== undefined && <Progress percent={100 * share} label={`Importing into ${name}`} />}
    </Dialog>
  );
}
