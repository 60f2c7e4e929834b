// quiver keys, quiver audit

import { writeWhere } from "@quiverdb/client/write-where";
import { limits } from "@quiverdb/protocol/limits";
import type { AuditEntry } from "@quiverdb/protocol/shapes/audit";
import { type KeyInformation, type Role, roles } from "@quiverdb/protocol/shapes/key";
import { type Command, Option } from "commander";
import { type ConnectionOptions, connectServer, parsed, QuiverCommand, withConnection } from "../command.ts";
import { type FilterOptions, filterOf, whereHelp, withFilter } from "../filter/option.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { countOf, readDuration, readInteger } from "../values.ts";

type CreateOptions = ConnectionOptions &
  FilterOptions & { role: Role; collection?: string[]; expires?: number };

const one = (text: string, before: string[] = []) => [...before, text];

/** `quiver keys`: API keys and their permissions. */
export function keysCommand(): Command {
  const command = new QuiverCommand("keys");
  withConnection(
    command.command("list", { isDefault: true }).description("list all API keys (default)"),
  ).action(list);
  const creating = command
    .command("create")
    .description("create an API key; it is shown once, as the only output on standard output")
    .argument("<name>", "a label that helps to recognise the key")
    .addOption(
      new Option("--role <role>", "read: search and read; write: also change records; admin: everything")
        .choices(roles)
        .makeOptionMandatory(),
    )
    .option(
      "--collection <name>",
      "limit the key to this collection, or to a prefix (logs-*); may be repeated",
      one,
    )
    .option("--expires <duration>", "the key expires after this time (30d, 12h)", parsed(readDuration))
    .addHelpText("after", whereHelp);
  withConnection(withFilter(creating, "only matching records exist for the key")).action(create);
  withConnection(
    command.command("revoke").description("revoke an API key immediately").argument("<key-id>"),
  ).action(revoke);
  return command;
}

/** `quiver audit`: who changed what. */
export function auditCommand(): Command {
  return withConnection(
    new QuiverCommand("audit").addOption(
      new Option("--limit <n>", "most entries")
        .argParser(parsed((text) => readInteger(text, 1, limits.auditPageMax)))
        .default(limits.auditPageDefault),
    ),
  ).action(audit);
}

async function list(options: ConnectionOptions): Promise<void> {
  const keys = await connectServer(options).listKeys();
  if (options.json) return printJson(keys);
  printTable(
    keys,
    [
      { title: "ID", value: ({ key_id }) => key_id },
      { title: "NAME", value: ({ name }) => name },
      { title: "ROLE", value: ({ role }) => role },
      { title: "CREATED", value: ({ created_at }) => time(created_at) },
      { title: "EXPIRES", value: ({ expires_at }) => time(expires_at, "never") },
      { title: "LAST USED", value: ({ last_used_at }) => time(last_used_at, "never") },
      { title: "COLLECTIONS", value: collectionsOf },
      { title: "FILTER", value: whereOf },
    ],
    "There are no API keys. Create one with: quiver keys create NAME --role read",
  );
}

async function create(name: string, options: CreateOptions): Promise<void> {
  const { role, collection: collections, expires } = options;
  const expires_at = expires === undefined ? undefined : Math.floor((Date.now() + expires) / 1000);
  const filter = filterOf(options);
  const created = await connectServer(options).createKey({ name, role, collections, filter, expires_at });
  if (options.json) return printJson(created);
  // Only the key goes to stdout, so that a script can read it; the explanation goes to stderr.
  process.stderr.write(
    `Created key ${created.key_id}: role ${role}, ${collectionsOf(created)}, ${created.filter === null ? "" : `${whereOf(created)}, `}expires ${time(created.expires_at, "never")}.\n` +
      "Store it now: it is not shown again.\n",
  );
  printLine(created.key);
}

async function revoke(keyId: string, options: ConnectionOptions): Promise<void> {
  await connectServer(options).revokeKey(keyId);
  if (options.json) return printJson({ revoked: keyId });
  printLine(`Revoked ${keyId}.`);
}

async function audit(options: ConnectionOptions & { limit: number }): Promise<void> {
  const { entries, damaged_lines } = await connectServer(options).audit({ limit: options.limit });
  if (options.json) return printJson({ entries, damaged_lines });
  if (damaged_lines > 0)
    process.stderr.write(
      `quiver: ${countOf(damaged_lines, "damaged line")} of the log ${damaged_lines === 1 ? "was" : "were"} skipped.\n`,
    );
  printTable(
    entries,
    [
      { title: "AT", value: ({ at }) => at },
      { title: "WHO", value: ({ who }) => who },
      { title: "OPERATION", value: ({ operation }) => operation },
      { title: "PHASE", value: ({ phase, error }) => (error === undefined ? phase : `${phase}: ${error}`) },
      { title: "WHAT", value: whatOf },
      { title: "ADDRESS", value: ({ address }) => address },
      { title: "REQUEST", value: ({ request_id }) => request_id },
    ],
    "There are no entries yet.",
  );
}

const time = (seconds: number | null, none = "") =>
  seconds === null ? none : new Date(seconds * 1000).toISOString().replace(".000", "");

const collectionsOf = ({ collections }: Pick<KeyInformation, "collections">) =>
  collections === null ? "all collections" : collections.join(" ");

const whereOf = ({ filter }: Pick<KeyInformation, "filter">) =>
  filter === null ? "all records" : `where ${writeWhere(filter)}`;

const whatOf = ({ what }: AuditEntry) =>
  Object.entries(what)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
