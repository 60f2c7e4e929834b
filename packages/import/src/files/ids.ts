// Which id does each row of a file of bare vectors get?
//
// Either its number, counted from 0 over all files of the import, or the line of an ids file with that number. A plain line is the id
// itself; a JSON string is decoded, and of a JSON object one field is used.

import { fileFault } from "./faults.ts";
import { openInput } from "./input-file.ts";
import { splitLines } from "./lines.ts";

const idLineBytesMax = 64 * 1024;

export interface RowIds {
  /** Ids of the next `count` rows. @throws QuiverError source_failed when there are no more */
  take(count: number): Promise<string[]>;
  /** Whether ids are left over after all rows have been read. */
  hasMore(): Promise<boolean>;
  close(): Promise<void>;
}

export type IdOptions = {
  /** Prefix of every id. */
  readonly prefix: string;
  /** File with an id on each line. */
  readonly file?: string;
  /** Field with the id, if a line is a JSON object. */
  readonly field: string;
};

/** Ids for the rows from `firstRow` (from 0, over all files) on. */
export async function rowIds(options: IdOptions, firstRow: number): Promise<RowIds> {
  if (options.file === undefined) return numbered(options.prefix, firstRow);
  const ids = new IdsFile(options.file, options);
  await ids.skip(firstRow);
  return ids;
}

function numbered(prefix: string, firstRow: number): RowIds {
  let row = firstRow;
  return {
    take: async (count) => Array.from({ length: count }, () => `${prefix}${row++}`),
    hasMore: async () => false,
    close: async () => undefined,
  };
}

class IdsFile implements RowIds {
  readonly #path: string;
  readonly #options: IdOptions;
  readonly #lines: AsyncGenerator<string[]>;
  #ready: string[] = [];
  #taken = 0;

  constructor(path: string, options: IdOptions) {
    this.#path = path;
    this.#options = options;
    this.#lines = this.#read();
  }

  async take(count: number): Promise<string[]> {
    if (!(await this.#fill(count))) {
      throw fileFault(
        `${this.#path} has ${this.#taken + this.#ready.length} ids, but there are more vectors than that. It must have one line for each vector.`,
      );
    }
    this.#taken += count;
    return this.#ready.splice(0, count);
  }

  async skip(count: number): Promise<void> {
    for (let left = count; left > 0; ) {
      const step = Math.min(left, 10_000);
      await this.take(step);
      left -= step;
    }
  }

  hasMore(): Promise<boolean> {
    return this.#fill(1);
  }

  async close(): Promise<void> {
    await this.#lines.return(undefined);
  }

  /** Reads until `count` ids are available; false if the file ends before. */
  async #fill(count: number): Promise<boolean> {
    while (this.#ready.length < count) {
      const { done, value } = await this.#lines.next();
      if (done) return false;
      this.#ready.push(...value);
    }
    return true;
  }

  async *#read(): AsyncGenerator<string[]> {
    const { chunks } = await openInput(this.#path);
    for await (const lines of splitLines(chunks, { offset: 0, number: 0 }, idLineBytesMax)) {
      yield lines.map(
        ({ bytes, number }) => this.#options.prefix + readId(bytes, number, this.#path, this.#options.field),
      );
    }
  }
}

function readId(bytes: Buffer | undefined, number: number, path: string, field: string): string {
  const line = bytes?.toString("utf8") ?? "";
  if (bytes === undefined) throw fileFault(`${path}:${number}: the line is too long for an id.`);
  if (line === "") throw fileFault(`${path}:${number}: the line is empty, expected an id.`);
  if (!line.startsWith('"') && !line.startsWith("{")) return line;
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // A plain line may start with a quotation mark without being JSON.
    return line;
  }
  if (typeof value === "string") return value;
  const id = (value as Record<string, unknown>)[field];
  if (typeof id === "string" || typeof id === "number") return String(id);
  throw fileFault(
    `${path}:${number}: the object has no text or number under ${JSON.stringify(field)}; name the field with the id with the option ids.field.`,
  );
}
