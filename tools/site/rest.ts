// How does the OpenAPI document of the server become pages?
//
// One page for each tag, one section for each operation: its address, its parameters and fields with their types and limits, an example that
// runs, the answer, and the codes of its errors. The page that the server shows at /docs is put in, too, as it is: there an operation can be
// tried.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer } from "@quiverdb/server/server";
import type { Generated } from "./contents.ts";

/** The part of JSON Schema that the interface uses. */
type Schema = {
  type?: string | readonly string[];
  const?: unknown;
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  description?: string;
  title?: string;
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  $ref?: string;
};
type Content = Readonly<
  Record<
    string,
    { schema?: Schema; example?: unknown; examples?: Readonly<Record<string, { value: unknown }>> }
  >
>;
type Parameter = { name: string; in: string; required?: boolean; description?: string; schema?: Schema };
type Operation = {
  operationId: string;
  tags: readonly string[];
  summary: string;
  description?: string;
  parameters?: readonly Parameter[];
  requestBody?: { content: Content };
  responses: Readonly<Record<string, { description?: string; content?: Content }>>;
};
type Document = {
  info: { description: string };
  tags: readonly { name: string; description: string }[];
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  components: { schemas: Readonly<Record<string, Schema>> };
};

/** The address of the server in examples. */
const address = "http://127.0.0.1:8443";
const interactive: Generated = { file: "reference/index.html", text: "To try out" };

/**
 * Writes the pages, the OpenAPI document and the server's own page of it.
 * @param pages folder of the pages of the generator
 * @param files folder of the static files
 */
export async function writeRestReference(pages: string, files: string): Promise<Generated> {
  const { document, page, script } = await fromServer();
  mkdirSync(join(pages, "rest"), { recursive: true });
  mkdirSync(join(files, "reference"), { recursive: true });
  // Addressed to a server on the reader's machine, and not to that of the site.
  writeFileSync(
    join(files, "openapi.json"),
    JSON.stringify({ ...document, servers: [{ url: address }] }, null, 1),
  );
  // The server has its document at a fixed address; the site can be anywhere.
  if (!page.includes("/openapi.json"))
    throw new Error("the server's page does not name its OpenAPI document");
  writeFileSync(join(files, "reference", "index.html"), page.replace("/openapi.json", "../openapi.json"));
  mkdirSync(join(files, "reference", "js"), { recursive: true });
  writeFileSync(join(files, "reference", "js", "scalar.js"), script);

  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const ofTag = (name: string) => operations.filter(({ operation }) => operation.tags.includes(name));
  const nameOf = (tag: string) => tag.toLowerCase();
  for (const { name, description } of document.tags) {
    const sections = ofTag(name).map(({ path, method, operation }) => section(path, method, operation));
    const text = [`# ${name}`, description, ...sections].join("\n\n");
    writeFileSync(join(pages, "rest", `${nameOf(name)}.md`), `${text}\n`);
  }
  const table = document.tags.flatMap(({ name, description }) => [
    `## ${name}`,
    description,
    [
      "| | |",
      "|---|---|",
      ...ofTag(name).map(
        ({ path, method, operation: { summary } }) =>
          `| [${summary}](/rest/${nameOf(name)}.md#${anchorOf(summary)}) | \`${method} ${path}\` |`,
      ),
    ].join("\n"),
  ]);
  const more =
    "[The same, to try out](/reference/index.html) against a server on your machine (start it with `--cors-origin` and the address of this page), and [the OpenAPI 3.1 document](/openapi.json). A running server has both at `/docs` and `/openapi.json`.";
  const start = ["# REST", document.info.description, more, ...table, errorsText(operations)].join("\n\n");
  writeFileSync(join(pages, "rest", "index.md"), `${start}\n`);
  const parts = document.tags.map(({ name }) => ({ file: `rest/${nameOf(name)}.md`, text: name }));
  return { file: "rest/index.md", text: "REST", parts: [...parts, interactive] };
}

async function fromServer(): Promise<{ document: Document; page: string; script: string }> {
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-site-"));
  try {
    const server = await startServer({ dataDir, port: 0, noAuth: true, console: false, logLevel: "silent" });
    try {
      const read = async (path: string) => {
        const answer = await fetch(new URL(path, server.url));
        if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
        return await answer.text();
      };
      const document = JSON.parse(await read("/openapi.json")) as Document;
      return { document, page: await read("/docs/"), script: await read("/docs/js/scalar.js") };
    } finally {
      await server.close();
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
}

const anchorOf = (summary: string): string =>
  summary
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
    .replaceAll(" ", "-");

function section(path: string, method: string, operation: Operation): string {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const parts = [`## ${summary}`, `\`${method} ${path}\``];
  if (description !== undefined) parts.push(description);
  if (parameters.length > 0) {
    const rows = parameters.map(({ name, in: place, required, description: text }) => [
      `\`${name}\`${required ? "" : " (optional)"}`,
      place,
      text ?? "",
    ]);
    parts.push(table(["parameter", "in", ""], rows));
  }
  for (const [type, { schema = {} }] of Object.entries(requestBody?.content ?? {})) {
    const { title } = schema;
    parts.push(`**Body**, \`${type}\`${title === undefined ? "" : ` (${lowerFirst(title)})`}:`);
    // The other formats have the same records.
    if (type === "application/json" || Object.keys(requestBody?.content ?? {}).length === 1)
      parts.push(fieldTable(schema, true));
  }
  parts.push(...examplesOf(path, method, operation));
  for (const [status, { description: text = "", content = {} }] of Object.entries(responses)) {
    if (!status.startsWith("2")) continue;
    const [[type, { schema = {} }] = ["", {}]] = Object.entries(content);
    parts.push(`**${status}** ${type === "" ? lowerFirst(text) : `\`${type}\``}`);
    if (schema.properties !== undefined || schema.items !== undefined || schema.anyOf !== undefined)
      parts.push(fieldTable(schema, false));
  }
  const failures = Object.keys(responses).filter((status) => !status.startsWith("2"));
  parts.push(`**Errors**: ${failures.join(", ")} ([the codes](/rest/index.md#errors)).`);
  return parts.join("\n\n");
}

/** All codes with their statuses and meanings. */
function errorsText(operations: readonly { operation: Operation }[]): string {
  const codes = new Map<string, { statuses: Set<string>; meaning: string }>();
  for (const { operation } of operations) {
    for (const [status, { description = "" }] of Object.entries(operation.responses)) {
      for (const [, code, meaning] of description.matchAll(/^- `(\w+)`: (.*)$/gm)) {
        const known = codes.get(code) ?? { statuses: new Set(), meaning };
        known.statuses.add(status);
        codes.set(code, known);
      }
    }
  }
  const rows = [...codes]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { statuses, meaning }]) => [`\`${code}\``, [...statuses].toSorted().join(", "), meaning]);
  return `## Errors\n\nThe same code has different statuses on some operations.\n\n${table(["code", "status", "meaning"], rows)}`;
}

/** The examples of a request, as commands that run: the bodies are those that the tests of the server send. */
function examplesOf(path: string, method: string, { requestBody, parameters = [] }: Operation): string[] {
  const content = requestBody?.content["application/json"];
  const bodies =
    content === undefined
      ? []
      : content.examples
        ? Object.values(content.examples).map(({ value }) => value)
        : [content.example];
  const required = parameters.filter(({ in: place, required }) => place === "query" && required);
  const query = required.map(({ name }) => `${name}=${name}`).join("&");
  const filled = path
    .replaceAll("{collection_id}", "articles")
    .replaceAll("{vector_id}", "a1")
    .replaceAll("{index_type}", "dense")
    .replaceAll("{field}", "year");
  const flags = { GET: "", POST: "", HEAD: "--head " }[method] ?? `-X ${method} `;
  const upload =
    requestBody?.content["application/octet-stream"] === undefined
      ? ""
      : ` \\\n  -H "Content-Type: application/octet-stream" --data-binary @articles.qbackup`;
  const command = (body: string) =>
    `\`\`\`sh\ncurl ${flags}-H "Authorization: Bearer $QUIVER_API_KEY" "${address}${filled}${query === "" ? "" : `?${query}`}"${body}\n\`\`\``;
  if (bodies.length === 0) return [command(upload || (method === "POST" ? " -X POST" : ""))];
  return bodies.map((body) =>
    command(
      ` \\\n  -H "Content-Type: application/json" -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
    ),
  );
}

/** The fields of a body or an answer, those of their objects and items included. */
function fieldTable(schema: Schema, ofRequest: boolean): string {
  const rows = fieldsOf(schema, "").map(({ name, schema: field, required }) => [
    `\`${name}\``,
    typeOf(field) + (ofRequest && required ? ", required" : ""),
    (field.description ?? "") +
      (field.default === undefined ? "" : ` Default: \`${JSON.stringify(field.default)}\`.`),
  ]);
  return rows.length === 0 ? typeOf(schema) : table(["field", "type", ""], rows);
}

type Field = { name: string; schema: Schema; required: boolean };

function fieldsOf(schema: Schema, path: string): Field[] {
  const branches = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  // What one of several forms requires, another does without.
  const inBranches = branches
    .flatMap((branch) => fieldsOf(branch, path))
    .map((field) => ({ ...field, required: false }));
  const inItems = schema.items === undefined ? [] : fieldsOf(schema.items, `${path}[]`);
  const own = Object.entries(schema.properties ?? {}).flatMap(([key, field]) => {
    const name = path === "" ? key : `${path}.${key}`;
    return [
      { name, schema: field, required: schema.required?.includes(key) === true },
      ...fieldsOf(field, name),
    ];
  });
  const { additionalProperties: others } = schema;
  const inOthers = typeof others === "object" ? fieldsOf(others, `${path}.*`) : [];
  const seen = new Set<string>();
  return [...own, ...inItems, ...inOthers, ...inBranches].filter(
    ({ name }) => !seen.has(name) && seen.add(name),
  );
}

/** A type with its limits, in words. */
function typeOf(schema: Schema): string {
  const branches = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  if (branches.length > 0) return [...new Set(branches.map(typeOf))].join(" or ");
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(", ");
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  const types = [schema.type ?? "any"].flat();
  const name = types
    .map((type) =>
      type === "array" && schema.items !== undefined
        ? `array of ${typeOf({ ...schema.items, description: undefined })}`
        : type,
    )
    .join(" or ");
  return name + limitsOf(schema);
}

function limitsOf(schema: Schema): string {
  const range = (least: number | undefined, most: number | undefined, unit: string) => {
    const of = unit === "" ? "" : ` ${unit}`;
    if (least !== undefined && most !== undefined)
      return [`${numberText(least)} to ${numberText(most)}${of}`];
    if (most !== undefined) return [`at most ${numberText(most)}${of}`];
    return least !== undefined ? [`at least ${numberText(least)}${of}`] : [];
  };
  const parts = [
    ...range(schema.minimum, schema.maximum, ""),
    ...(schema.exclusiveMinimum === undefined ? [] : [`above ${numberText(schema.exclusiveMinimum)}`]),
    ...(schema.exclusiveMaximum === undefined ? [] : [`below ${numberText(schema.exclusiveMaximum)}`]),
    ...range(schema.minLength, schema.maxLength, "characters"),
    ...range(schema.minItems, schema.maxItems, "items"),
    ...range(undefined, schema.maxProperties, "keys"),
  ];
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`;
}

const numberText = (value: number): string => value.toLocaleString("en");
const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

/** A Markdown table; `|` and line breaks in cells are escaped. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cell = (text: string) =>
    text
      .replaceAll("|", "\\|")
      .replaceAll(/\s*\n\s*/g, " ")
      .replaceAll("<", "&lt;");
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}
