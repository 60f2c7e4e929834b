// How is a map made without stopping the page?
//
// A worker reads the records with the client, page by page, and keeps their vectors as 32-bit floats; then it computes, and tells the page how
// far it is and where the points are by then. Reading takes most of the time until all are drawn: the first page is drawn at once, and while
// the vectors of a page are decoded, the server makes the next one. 20,000 vectors of 768 numbers are drawn after 3.1 s.

import { connect } from "@quiverdb/client";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { arrange, componentsOfUmap, firstTwo } from "./layout.ts";
import type { FieldValue, MapMessage, MapStart } from "./messages.ts";
import { principalCoordinates } from "./pca.ts";

/** Numbers of the vectors in one page of records. */
const pageValues = 1_500_000;
const pageRecordsMax = 2_000;
/** Fields that points can be coloured by. */
const fieldsMax = 40;
const tellMs = 120;

const scope = globalThis as unknown as {
  postMessage(message: MapMessage, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<MapStart>) => void) | null;
};
const tell = (message: MapMessage, transfer: Transferable[] = []) => scope.postMessage(message, transfer);

let toldMs = 0;
function progress(stage: string, share: number): void {
  const now = performance.now();
  if (now - toldMs < tellMs) return;
  toldMs = now;
  tell({ type: "progress", stage, share });
}

const tellPoints = (points: Float32Array<ArrayBuffer>, layout: "pca" | "umap") =>
  tell({ type: "points", points, layout }, [points.buffer]);

scope.onmessage = ({ data }) => {
  draw(data).then(
    () => tell({ type: "done" }),
    (error: unknown) =>
      tell({ type: "failed", message: error instanceof Error ? error.message : String(error) }),
  );
};

async function draw(start: MapStart): Promise<void> {
  const { dimension, layout } = start;
  const all = await read(start, (first) => show(first, dimension));
  show(all, dimension);
  // UMAP needs a few neighbours.
  if (layout === "pca" || all.ids.length < 10) return;
  const components = Math.min(componentsOfUmap, dimension);
  const coordinates = coordinatesOf(all, dimension, components);
  tell({ type: "progress", stage: "UMAP", share: 0 });
  for (const { share, points } of arrange(coordinates, components, 2 * tellMs, () => performance.now())) {
    progress("UMAP", share);
    if (points !== undefined) tellPoints(points, "umap");
  }
}

type Read = {
  readonly values: Float32Array;
  readonly ids: readonly string[];
  readonly fields: Readonly<Record<string, readonly FieldValue[]>>;
};

/** Draws records by their first two principal components, which are found in a quarter of the time of all that UMAP starts from. */
function show(read: Read, dimension: number): void {
  const { ids, fields } = read;
  tell({ type: "records", ids, fields });
  if (ids.length === 0) return;
  const components = Math.min(2, dimension);
  tellPoints(firstTwo(coordinatesOf(read, dimension, components), components), "pca");
}

function coordinatesOf({ values, ids }: Read, dimension: number, components: number): Float32Array {
  const computation = principalCoordinates({ values, count: ids.length, dimension }, components);
  let step = computation.next();
  for (; !step.done; step = computation.next()) progress("Finding the principal components", step.value);
  return step.value;
}

/** @param onFirst called after the first page, unless it is the only one */
async function read(
  { url, key, collection: name, dimension, records, filter }: MapStart,
  onFirst: (first: Read) => void,
): Promise<Read> {
  const collection = connect(url, { apiKey: key }).collection(name);
  const limit = Math.max(1, Math.min(pageRecordsMax, Math.floor(pageValues / dimension), records));
  let values = new Float32Array(Math.min(records, 4_096) * dimension);
  const ids: string[] = [];
  const fields = new Map<string, FieldValue[]>();
  const pageFrom = (cursor?: string) =>
    collection.scroll({
      limit,
      cursor,
      filter: (filter as Filter | undefined) ?? undefined,
      include: ["dense_f32", "metadata"],
    });
  let reading: ReturnType<typeof pageFrom> | undefined = pageFrom();
  for (let isFirst = true; reading !== undefined; isFirst = false) {
    const page: Awaited<ReturnType<typeof pageFrom>> = await reading;
    const found = page.vectors.filter(({ dense_f32 }) => dense_f32 != null).length;
    const isLast = page.next_cursor == null || ids.length + found >= records;
    reading = isLast ? undefined : pageFrom(page.next_cursor as string);
    // If it fails meanwhile, that is reported when it is awaited.
    reading?.catch(() => {});
    for (const { id, dense_f32, metadata } of page.vectors) {
      if (id === undefined || dense_f32 == null || ids.length === records) continue;
      const at = ids.length;
      if ((at + 1) * dimension > values.length) {
        const grown = new Float32Array(Math.min(records, 2 * (at + 1)) * dimension);
        grown.set(values);
        values = grown;
      }
      values.set(floatsOf(dense_f32), at * dimension);
      ids.push(id);
      keepFields(fields, metadata ?? {}, at);
    }
    if (isFirst && !isLast) onFirst({ values, ids, fields: Object.fromEntries(fields) });
    progress("Reading records", ids.length / records);
  }
  return { values, ids, fields: Object.fromEntries(fields) };
}

/** 32-bit floats of their bytes in base64. Browsers are little-endian, as the bytes are. */
function floatsOf(text: string): Float32Array {
  if (Uint8Array.fromBase64 !== undefined) return new Float32Array(Uint8Array.fromBase64(text).buffer);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

/** The single values of the metadata and of the objects in it; of a list the first one. */
function keepFields(fields: Map<string, FieldValue[]>, metadata: object, at: number, prefix = ""): void {
  for (const [name, found] of Object.entries(metadata)) {
    const value: unknown = Array.isArray(found) ? found[0] : found;
    const path = prefix + name;
    if (typeof value === "object" && value !== null) {
      if (prefix === "") keepFields(fields, value, at, `${path}.`);
      continue;
    }
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") continue;
    let column = fields.get(path);
    if (column === undefined) {
      if (fields.size === fieldsMax) continue;
      column = [];
      fields.set(path, column);
    }
    column[at] = value;
  }
}
