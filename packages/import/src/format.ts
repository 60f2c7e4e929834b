// What does a format of foreign records consist of?
//
//   export --read--\
//                   raw records --record--> ours
//   server --live--/
//
// Records of a file and of a running server are the same, so what becomes of them is written once.

import type { DenseIndexInput, RecordInput } from "@quiverdb/client";
import type { Found } from "./json-values.ts";
import type { RecordFault } from "./record-fault.ts";
import type { FieldNames } from "./record-reason.ts";
import type { Source } from "./source.ts";

/** How the vectors of a collection are compared. */
export type Metric = DenseIndexInput["distance_metric_type"];

/** What a collection for the records needs, as far as their source tells it before a record is read. */
export type SourceShape = {
  readonly dimension?: number;
  readonly metric?: Metric;
  /** The source's name of its metric, if there is no such metric here. */
  readonly otherMetric?: string;
  readonly sparse?: boolean;
  readonly text?: boolean;
};

/** Records that lie behind each other; a faulty one is in its place. */
export type RawPage<Raw> = {
  readonly raws: readonly (Raw | RecordFault)[];
  /** Of a file: those on which the records are. */
  readonly lines?: readonly number[];
  /** Where the next page begins, in the terms of the source; null behind the last one. */
  readonly next: string | null;
};

/** A server that is being read. */
export type Live<Raw> = {
  readonly shape: SourceShape;
  /** Undefined if the source does not tell. */
  readonly recordsTotal: number | undefined;
  /** @param from `next` of an earlier page; undefined: from the first record on */
  pages(from: string | undefined): AsyncGenerator<RawPage<Raw>>;
  /** Closes what was opened for this reading alone. */
  close(): Promise<void>;
};

export type LiveReading = {
  /** Records of a page. */
  readonly pageRecords: number;
  /** Runs a call of the source's client. @throws QuiverError source_failed, or the reason of an interruption */
  ask<T>(call: () => Promise<T>): Promise<T>;
};

export type Format<Raw, Options, LiveSource> = {
  /** What messages call the source. */
  readonly title: string;
  /** Most records of a page that the source gives. */
  readonly pageRecordsMax: number;
  /** The records of an export. @throws QuiverError for a file of another format */
  read(source: Source, options: Options): AsyncIterable<Found<Raw>>;
  /** Opens a running server. @throws QuiverError for what cannot be carried over at all, before a record is read */
  live(source: LiveSource, options: Options, reading: LiveReading): Promise<Live<Raw>>;
  /** Our record. @throws RecordFault, or QuiverError if no record can be read with these options */
  record(raw: Raw, options: Options): RecordInput;
  /** What the source calls the fields of our record. @param raw one of which a record could be made */
  names(raw: Raw, options: Options): FieldNames;
};
