// What does an error of the server mean to somebody at the command line?
//
// The server's messages name fields, methods and paths of the REST interface. Here they become options and commands of this program. A
// message that names none of them stays as it is.

import { QuiverError } from "@quiverdb/client";

/** Fields of requests, and the options that they come from. `sparse_` goes before what it begins with. */
const options: readonly (readonly [field: RegExp, option: string])[] = [
  [/^query_vector\b/, "--vector"],
  [/^query_terms\b/, "--sparse"],
  [/^(query_text|query)\b(?!_)/, "--text"],
  [/^(sparse_)?early_terminate_threshold\b/, "--threshold"],
  [/^fusion_constant_k\b/, "--fusion-constant"],
  [/^return_raw_text\b/, "--raw-text"],
  [/^(index\.properties\.)?recall_target\b/, "--recall-target"],
  [/^(index\.properties\.)?ef_search\b/, "--ef-search"],
  [/^index\.properties\.ef_construction\b/, "--ef-construction"],
  [/^index\.properties\.neighbors_count\b/, "--neighbors"],
  [/^index\.properties\.level_0_neighbors_count\b/, "--level-0-neighbors"],
  [/^index\.properties\.num_layers\b/, "--layers"],
  [/^index\.properties\.max_cache_size\b/, "--cache-size"],
  [/^quantization\.properties\.range\b/, "--range"],
  [/^(quantization\.properties\.)?sample_threshold\b/, "--sample-threshold"],
  [/^dense_vector\.dimension\b/, "--dimension"],
  [/^config\.max_vectors\b/, "--max-vectors"],
  [/^config\.shards\b/, "--shards"],
  [/^config\.replication_factor\b/, "--replicas"],
  [/^top_k\b/, "--top-k"],
  [/^stop_words\b/, "--stop-words"],
  [/^expires_at\b/, "--expires"],
  [/^collections\b/, "--collection"],
  [/^(language|syntax|k1|b|description)\b/, "--$1"],
];

/** What a server asks for that nobody can give at a command line. */
const afterthoughts = / Correct the request and send it again\.$/;

/** The message of an error for a user of the command line. */
export function messageFor(error: unknown): string {
  if (!(error instanceof QuiverError)) return error instanceof Error ? error.message : String(error);
  const message = error.message.replace(afterthoughts, "");
  return advice(error, message) ?? inOptions(message);
}

function inOptions(message: string): string {
  if (/^filter[.[]/.test(message)) return `In the filter, ${message.replace(/^filter\.?/, "")}`;
  for (const [field, option] of options) if (field.test(message)) return message.replace(field, option);
  return message;
}

/** What to do where the server says it in the words of its own interface. */
function advice({ code, details }: QuiverError, message: string): string | undefined {
  const name = typeof details.name === "string" ? details.name : undefined;
  const of = name === undefined ? "COLLECTION" : word(name);
  const kind = details.index_type === "tf-idf" ? "text" : String(details.index_type);
  switch (code) {
    case "connection_failed":
      return isNobodyThere(details)
        ? `No server answers at ${details.url} (${details.reason}). Start one with "quiver serve", or name another with --url or QUIVER_URL.`
        : undefined;
    case "unauthorized":
      return message.includes("Authorization header")
        ? "The server asks for a key. Give the name of a file with it in --api-key-file or QUIVER_API_KEY_FILE, or the key itself in QUIVER_API_KEY. The first start of a server writes one to the file admin-key in its data directory (./quiver-data, unless --data-dir says otherwise)."
        : message.replace(/ Send .*$/, " Give another one with --api-key-file, QUIVER_API_KEY or --api-key.");
    case "collection_not_found":
      return name === undefined
        ? undefined
        : `There is no collection named ${JSON.stringify(name)}. "quiver collections list" lists them; "quiver collections create ${of}" makes it (with --dimension, --sparse or --text), and so does "quiver import ${of} FILE --create".`;
    case "index_not_found":
      return name === undefined
        ? undefined
        : `The collection ${JSON.stringify(name)} has no ${kind} index. Create it with: quiver index create ${of} ${kind}`;
    case "index_already_exists":
      return details.index_type === undefined
        ? undefined
        : `The collection has a ${kind} index already. "quiver index delete ${of} ${kind}" removes it first.`;
    case "data_directory_in_use":
      return message.replace(
        / One process at a time .*$/,
        " If that is a server, send it requests with --url; otherwise stop it, or name another directory.",
      );
    case "data_directory_foreign":
      return message.replace("the option force", "--force");
    case "transaction_not_found":
      return `The collection has no transaction ${JSON.stringify(details.transaction_id)}. "quiver transactions list ${of}" lists those that it has.`;
    case "key_not_found":
      return 'There is no API key with this id. "quiver keys list" lists the keys with their ids.';
    default:
      return undefined;
  }
}

/** Whether nothing listens at the address, or it cannot be reached. */
const isNobodyThere = ({ url, reason }: QuiverError["details"]): boolean =>
  typeof url === "string" &&
  [
    "ECONNREFUSED",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "UND_ERR_CONNECT_TIMEOUT",
  ].includes(String(reason));

/** A word of a shell's command line. */
const word = (text: string): string =>
  /^[\w.,:@%+=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
