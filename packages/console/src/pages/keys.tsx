// Who may do what, and who did what?

import type { AuditEntry } from "@quiverdb/protocol/shapes/audit";
import type { KeyInformation, Role } from "@quiverdb/protocol/shapes/key";
import { useRef, useState } from "preact/hooks";
import { roles } from "../choices.ts";
import { Dialog } from "../parts/dialog.tsx";
import { dateTime } from "../parts/format.ts";
import { Area, Field, Select } from "../parts/inputs.tsx";
import { Show, useLoaded } from "../parts/loading.tsx";
import { Table } from "../parts/table.tsx";
import { useClient } from "../session.ts";
import { parseFilter } from "../written.ts";

export function KeysPage() {
  const client = useClient();
  const keys = useLoaded((signal) => client.listKeys({ signal }), [client], 5_000);
  const [dialog, setDialog] = useState<
    "create" | { readonly revoke: KeyInformation } | { readonly shown: string }
  >();
  const close = () => {
    setDialog(undefined);
    keys.refresh();
  };
  return (
    <>
      <div class="head">
        <h1>Keys and audit</h1>
        <div class="buttons">
          <button type="button" class="primary" onClick={() => setDialog("create")}>
            New key
          </button>
        </div>
      </div>
      <div class="stack">
        <section class="card">
          <h2>Keys</h2>
          <Show of={keys}>
            {(list) =>
              list.length === 0 ? (
                <p class="muted">There are no API keys; only the admin key.</p>
              ) : (
                <KeyTable list={list} revoke={(key) => setDialog({ revoke: key })} />
              )
            }
          </Show>
        </section>
        <Audit />
      </div>
      {dialog === "create" && (
        <CreateKey
          close={close}
          created={(key) => {
            setDialog({ shown: key });
            keys.refresh();
          }}
        />
      )}
      {typeof dialog === "object" && "shown" in dialog && (
        <Dialog title="The new key" close={close}>
          <p>Copy it now: the server keeps only a digest of it, and nothing shows it again.</p>
          <input
            readonly
            class="mono"
            aria-label="The key"
            value={dialog.shown}
            onFocus={(event) => event.currentTarget.select()}
          />
        </Dialog>
      )}
      {typeof dialog === "object" && "revoke" in dialog && (
        <Dialog
          title={`Revoke the key ${dialog.revoke.name}`}
          submitLabel="Revoke"
          isDangerous
          submit={() => client.revokeKey(dialog.revoke.key_id)}
          close={close}
        >
          <p>Requests with this key are refused from now on.</p>
        </Dialog>
      )}
    </>
  );
}

function KeyTable({
  list,
  revoke,
}: {
  list: readonly KeyInformation[];
  revoke: (key: KeyInformation) => void;
}) {
  return (
    <Table columns={["Name", "Role", "Collections", "Filter", "Created", "Last used", "Expires"]} hasActions>
      {list.map((key) => (
        <tr key={key.key_id}>
          <td class="wide">
            {key.name}
            <div class="muted small mono">{key.key_id}</div>
          </td>
          <td>
            <span class={key.role === "admin" ? "badge warn" : "badge"}>{key.role}</span>
          </td>
          <td class="wide">
            {key.collections === null ? <span class="muted">all</span> : key.collections.join(", ")}
          </td>
          <td class="wide">{key.filter !== null && <code>{JSON.stringify(key.filter)}</code>}</td>
          <td class="time">{dateTime(key.created_at)}</td>
          <td class="time">{key.last_used_at === null ? "never" : dateTime(key.last_used_at)}</td>
          <td class="time">{key.expires_at === null ? "never" : dateTime(key.expires_at)}</td>
          <td>
            <button type="button" class="small" aria-label={`Revoke ${key.name}`} onClick={() => revoke(key)}>
              Revoke
            </button>
          </td>
        </tr>
      ))}
    </Table>
  );
}

function CreateKey({ close, created }: { close: () => void; created: (key: string) => void }) {
  const client = useClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("read");
  const [collections, setCollections] = useState("");
  const [filter, setFilter] = useState("");
  const [days, setDays] = useState("");
  const made = useRef<string | undefined>(undefined);
  const submit = async () => {
    const limited = collections.split(/[\s,]+/).filter((each) => each !== "");
    const { key } = await client.createKey({
      name,
      role,
      collections: limited.length === 0 ? undefined : limited,
      filter: parseFilter(filter),
      expires_at:
        days === "" ? undefined : Math.floor(Date.now() / 1_000) + Math.round(Number(days) * 86_400),
    });
    made.current = key;
  };
  // The dialog closes itself after it has succeeded; then the key is shown.
  const closeOrShow = () => (made.current === undefined ? close() : created(made.current));
  return (
    <Dialog title="New key" submitLabel="Create" canSubmit={name !== ""} submit={submit} close={closeOrShow}>
      <Field label="Name" value={name} set={setName} placeholder="what it is for" />
      <Select label="Role" value={role} options={roles} set={setRole} />
      <Field
        label="Only these collections; a name may end in *"
        value={collections}
        set={setCollections}
        placeholder="all"
      />
      <Area
        label="Only records that match this filter"
        value={filter}
        set={setFilter}
        placeholder="tenant = 'acme'"
      />
      <Field label="Days until it expires" type="number" value={days} set={setDays} placeholder="never" />
    </Dialog>
  );
}

function Audit() {
  const client = useClient();
  const [limit, setLimit] = useState(50);
  const audit = useLoaded((signal) => client.audit({ limit, signal }), [client, limit], 5_000);
  return (
    <section class="card">
      <h2>Audit log</h2>
      <Show of={audit}>
        {({ entries, damaged_lines }) => (
          <>
            {damaged_lines > 0 && (
              <p class="failure">{damaged_lines} damaged lines of the log are left out.</p>
            )}
            <Table columns={["Time", "Operation", "Phase", "Who", "What", "From"]}>
              {entries.map((entry, i) => (
                <AuditRow key={`${entry.request_id} ${entry.phase} ${i}`} entry={entry} />
              ))}
            </Table>
            {entries.length === limit && limit < 1_000 && (
              <button type="button" onClick={() => setLimit(Math.min(1_000, limit + 200))}>
                Older entries
              </button>
            )}
          </>
        )}
      </Show>
    </section>
  );
}

const phaseColors = { begun: "", done: "good", failed: "bad" } as const;

function AuditRow({ entry: { at, operation, phase, who, what, error, address } }: { entry: AuditEntry }) {
  return (
    <tr>
      <td class="time">{dateTime(at)}</td>
      <td>{operation}</td>
      <td>
        <span class={`badge ${phaseColors[phase]}`}>{phase}</span>
        {error !== undefined && <code class="small"> {error}</code>}
      </td>
      <td class="wide">{who}</td>
      <td class="wide small">
        {Object.entries(what)
          .map(([name, value]) => `${name} ${value}`)
          .join(", ")}
      </td>
      <td>{address}</td>
    </tr>
  );
}
