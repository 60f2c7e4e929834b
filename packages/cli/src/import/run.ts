// How does an import run?
//
//   inspect files -> saved state? --no--> new target -----------\
//                        | yes                                     v
//                        +-> usable? --> earlier target ------> batches --all in--> finish, delete state: exit 0 or 3
//                        |                                         |
//                        +-> was finished already: exit 0 or 3     +--failure, Ctrl-C--> save state, if any record
//                                                                  |                     is acknowledged: exit 1 or 130
//                                                                  +--too many rejected--> abandon: exit 1
//
// Invariants:
//   1. The saved position moves past a batch only when all records up to its end are acknowledged or rejected.
//   2. Two batches that write the same id are never in progress at once, so that the later line wins.
//   3. A transaction of the import is committed only when every line was read and sent.

import { type Database, isQuiverError } from "@quiverdb/client";
import { ensureCollection, metricOf } from "@quiverdb/import";
import { hasBareVectors } from "@quiverdb/import/files/formats";
import type { Input, InputOptions } from "@quiverdb/import/files/inputs";
import type { Position } from "@quiverdb/import/files/item";
import { nameOf, standardInput } from "@quiverdb/import/place";
import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { messageFor } from "../advice.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { countOf, formatCount, formatDuration } from "../values.ts";
import { type Batch, packBatches } from "./batches.ts";
import { needsOf } from "./create.ts";
import { inspectInputs, readItems } from "./inputs.ts";
import { type Rejected, sendIsolating } from "./isolate.ts";
import { type Progress, showProgress } from "./progress.ts";
import { type RejectedLine, Rejects, rejectedByReader } from "./rejects.ts";
import {
  deleteState,
  difference,
  emptyState,
  fingerprint,
  type Ignored,
  type ImportIdentity,
  type ImportState,
  loadState,
  type Mode,
  saveState,
  statePathOf,
} from "./state.ts";
import { type Found, StreamingTarget, type Target, TransactionTarget } from "./target.ts";
import { inOptions } from "./words.ts";

export type ImportOptions = {
  readonly collection: string;
  readonly input: InputOptions;
  readonly mode: Mode;
  readonly batchRecords: number;
  readonly batchBytes: number;
  readonly concurrency: number;
  /** `metric` undefined: that of the source, or else cosine. */
  readonly create?: { readonly metric: MetricName | undefined; readonly storeRawText: boolean };
  readonly resume: boolean;
  readonly statePath?: string;
  readonly rejectsPath?: string;
  readonly rejectsMax: number;
  readonly waitForIndex: boolean;
  readonly quiet: boolean;
};

export type ImportReport = {
  collection: string;
  mode: Mode;
  files: readonly string[];
  outcome: "done" | "interrupted" | "failed";
  /** Acknowledged records, including those of an interrupted first part. */
  records: number;
  records_this_run: number;
  rejected: number;
  rejected_lines: readonly RejectedLine[];
  /** With --ignore-unknown: records with removed fields, including those of an interrupted first part. */
  records_with_ignored_fields: number;
  /** How often each field was removed; the first 100 fields. */
  ignored_fields: readonly { field: string; records: number }[];
  resumed: boolean;
  seconds: number;
  records_per_second: number;
  transaction_id: string | null;
  state_file: string | null;
  /** Of an interrupted import, where the next run goes on: `line 1,000 of docs.jsonl`. */
  resume_after: string | null;
  exit_code: number;
};

/** How long to wait for responses after Ctrl-C. */
const interruptGraceMs = 5_000;
/** Interval at which the state is written; in between it lags behind. */
const stateEveryMs = 100;

export type ImportContext = {
  readonly client: Database;
  /** The address of its server, or its directory. */
  readonly place: string;
  readonly stderr: NodeJS.WriteStream;
  /** Aborted by Ctrl-C. */
  readonly interrupt: AbortSignal;
  /** Set while the import shows its progress, so that other messages are printed above the bar. */
  say: (line: string) => void;
};

/** Runs an import until it completes, fails or is interrupted. The message of a thrown error is meant for the user. */
export async function runImport(options: ImportOptions, context: ImportContext): Promise<ImportReport> {
  let run: ImportRun;
  try {
    const inputs = await inspectInputs(options.input);
    if (options.create) await create(options.create, options, inputs, context);
    run = new ImportRun(options, context, inputs, await findStart(options, inputs, context));
  } catch (error) {
    if (!isQuiverError(error) && !(error instanceof CommandError)) throw error;
    const cause = isQuiverError(error) ? error : error.cause;
    throw new CommandError(`${messageFor(error)} This run has imported nothing.`, { cause });
  }
  return await run.run();
}

async function create(
  { metric, storeRawText }: NonNullable<ImportOptions["create"]>,
  { collection, input }: ImportOptions,
  inputs: readonly Input[],
  { client }: ImportContext,
): Promise<void> {
  const needs = await needsOf(inputs, input);
  const [{ shape = {} }] = inputs;
  try {
    await ensureCollection(client, collection, needs, {
      metric: () => metricOf(shape, metric),
      storeRawText,
    });
  } catch (error) {
    throw inOptions(error);
  }
}

type Start = {
  readonly state: ImportState;
  readonly statePath: string | undefined;
  readonly resumed: boolean;
  /** Absent if the import had already ended. */
  readonly target: Target | undefined;
};

async function findStart(
  options: ImportOptions,
  inputs: readonly Input[],
  context: ImportContext,
): Promise<Start> {
  const { client, say } = context;
  const collection = client.collection(options.collection);
  const kind = options.mode === "streaming" ? StreamingTarget : TransactionTarget;
  const fresh = async (identity: ImportIdentity, statePath: string | undefined): Promise<Start> => {
    const target = await kind.open(collection);
    return { state: { ...emptyState(identity), ...target.statePart }, statePath, resumed: false, target };
  };
  const identity = await identityOf(options, inputs, context.place);
  // Input from a pipe cannot be read twice.
  if (options.input.files.includes(standardInput)) return fresh(identity, undefined);
  const { foreign, files } = options.input;
  const statePath =
    options.statePath ??
    statePathOf(foreign?.server === undefined ? files[0] : `${foreign.format}-${options.collection}`);
  const state = loadState(statePath);
  if (!state) return fresh(identity, statePath);
  if (!options.resume) {
    await abortTransactionOf(state, identity, client);
    return fresh(identity, statePath);
  }
  const other = difference(state.identity, identity);
  const found: Found =
    other === undefined ? await kind.resume(collection, state) : { kind: "unusable", why: other };
  if (found.kind === "unusable") {
    say(
      `The interrupted import of ${statePath} cannot be resumed: ${found.why}. Starting from the beginning.`,
    );
    await abortTransactionOf(state, identity, client);
    return fresh(identity, statePath);
  }
  if (found.kind === "finished") return { state, statePath, resumed: true, target: undefined };
  say(`Resuming after ${endOf(inputs, state.position)}: ${areStored(state.acknowledged)} already.`);
  return { state: { ...state, ...found.target.statePart }, statePath, resumed: true, target: found.target };
}

/** An import that is not resumed must not leave its transaction open, which would block all others. */
async function abortTransactionOf(state: ImportState, now: ImportIdentity, client: Database): Promise<void> {
  const { transactionId, identity } = state;
  if (transactionId === null || identity.url !== now.url || identity.collection !== now.collection) return;
  try {
    await client.collection(now.collection).resumeTransaction(transactionId).abort();
  } catch (error) {
    if (isQuiverError(error, "transaction_not_open") || isQuiverError(error, "transaction_not_found")) return;
    throw error;
  }
}

async function identityOf(
  { input, collection, mode }: ImportOptions,
  inputs: readonly Input[],
  url: string,
): Promise<ImportIdentity> {
  const { ids, dimension, format, foreign } = input;
  const paths = inputs.map(({ path }) => path).filter((path) => path !== standardInput);
  // A server has no content that could be compared.
  const ofServer = async (path: string) => ({ path, size: 0, mtimeMs: 0, hash: "" });
  const files = paths.map(foreign?.server === undefined ? fingerprint : ofServer);
  return {
    url,
    collection,
    mode,
    files: await Promise.all(files),
    idsFile: ids.file === undefined ? null : await fingerprint(ids.file),
    options: {
      format: format ?? null,
      dimension: dimension ?? null,
      idPrefix: ids.prefix,
      idsField: ids.field,
      // Only recorded if it is set, so that states of older releases, which lack the option, remain usable.
      ...(input.unknown === "ignore" && { unknown: "ignore" }),
      ...(Object.keys(input.table.columns).length > 0 && { columns: JSON.stringify(input.table.columns) }),
      ...(input.table.asText && { asText: "true" }),
      ...(foreign !== undefined && { from: foreign.format, foreign: JSON.stringify(foreign.options) }),
    },
  };
}

/** Requests in progress and the ids that they write. */
type Flight = { readonly ids: ReadonlySet<string>; readonly landed: Promise<void> };

class ImportRun {
  readonly #options: ImportOptions;
  readonly #context: ImportContext;
  readonly #inputs: readonly Input[];
  readonly #target: Target | undefined;
  readonly #statePath: string | undefined;
  readonly #resumed: boolean;
  readonly #rejects: Rejects;
  readonly #startedAt = performance.now();
  readonly #acknowledgedBefore: number;
  readonly #flights = new Set<Flight>();
  /** Completed batches that wait for an earlier one. */
  readonly #landed = new Map<number, { batch: Batch; rejected: readonly Rejected[] }>();
  #nextToLand = 0;
  #state: ImportState;
  /** The last one from which reading can go on. */
  #resumable: ImportState;
  #stateSavedAt = 0;
  #isStateSaved = false;
  /** Its transaction was aborted. */
  #isAbandoned = false;
  /** What became of what was acknowledged, if it is not stored. */
  #outcome: string | undefined;
  #stateProblem: string | undefined;
  #progress: Progress | undefined;
  #failure: unknown;

  constructor(options: ImportOptions, context: ImportContext, inputs: readonly Input[], start: Start) {
    this.#options = options;
    this.#context = context;
    this.#inputs = inputs;
    this.#target = start.target;
    this.#state = start.state;
    this.#resumable = start.state;
    this.#statePath = start.statePath;
    this.#resumed = start.resumed;
    this.#acknowledgedBefore = start.state.acknowledged;
    this.#rejects = new Rejects(options.rejectsPath, start.resumed, (line) => context.say(line));
    this.#rejects.count = start.state.rejected;
  }

  async run(): Promise<ImportReport> {
    if (this.#target === undefined) {
      this.#forgetState();
      this.#context.say("The interrupted import had already been committed.");
      return this.#report("done");
    }
    // One of another import, or of one that is not resumed.
    if (!this.#resumed) this.#forgetState();
    this.#saveState();
    this.#showProgress();
    try {
      await this.#sendAll(this.#target);
    } finally {
      this.#progress?.stop();
      this.#context.say = (line) => this.#context.stderr.write(`${line}\n`);
    }
    if (this.#failure !== undefined) await this.#fail(this.#target, this.#failure);
    if (this.#context.interrupt.aborted) {
      await this.#keepProgress(this.#target);
      return this.#report("interrupted");
    }
    // A commit may take long; if it is interrupted, nothing has to be sent again.
    this.#saveState();
    try {
      await this.#target.finish();
      if (this.#options.waitForIndex)
        await this.#context.client.collection(this.#options.collection).waitForIndex();
    } catch (error) {
      await this.#fail(this.#target, error);
    }
    this.#forgetState();
    return this.#report("done");
  }

  async #sendAll(target: Target): Promise<void> {
    const { batchRecords, batchBytes, concurrency, input } = this.#options;
    const { position, rows } = this.#state;
    const items = readItems(this.#inputs, input, position, rows, (message) => this.#context.say(message));
    const batches = packBatches(items, { recordsMax: batchRecords, bytesMax: batchBytes });
    const grace = new AbortController();
    const reading = new InterruptibleReading(this.#context.interrupt, () =>
      setTimeout(() => grace.abort(new CommandError("Interrupted.")), interruptGraceMs).unref(),
    );
    try {
      for (;;) {
        const next = await reading.wait(batches.next());
        if (next === undefined || next.done) break;
        const ids = idsOf(next.value);
        await this.#clearWay(ids, concurrency);
        if (this.#failure !== undefined || this.#context.interrupt.aborted) break;
        this.#launch(target, next.value, ids, grace.signal);
      }
    } catch (error) {
      this.#failure ??= error;
    }
    while (this.#flights.size > 0) await Promise.race([...this.#flights].map(({ landed }) => landed));
    // Standard input may never end, so a pending read is not awaited.
    if (!this.#context.interrupt.aborted) await batches.return(undefined);
  }

  /** Waits until another request may be sent and no request in progress writes one of `ids`. */
  async #clearWay(ids: ReadonlySet<string>, concurrency: number): Promise<void> {
    const blocking = () =>
      this.#flights.size >= concurrency || [...this.#flights].some((flight) => sharesAny(flight.ids, ids));
    while (this.#failure === undefined && blocking()) {
      await Promise.race([...this.#flights].map(({ landed }) => landed));
    }
  }

  #launch(target: Target, batch: Batch, ids: ReadonlySet<string>, signal: AbortSignal): void {
    const tooMany = (rejected: readonly Rejected[]) =>
      this.#rejects.count + rejected.length > this.#options.rejectsMax;
    const send = async () => {
      try {
        const refused = await sendIsolating(
          batch.records,
          (records) => target.send(records, signal),
          tooMany,
        );
        const own = batch.problems.map(rejectedByReader);
        const rejected = [...own, ...refused].sort((a, b) => a.item.number - b.item.number);
        this.#land(target, batch, rejected);
      } catch (error) {
        this.#failure ??= error;
      } finally {
        this.#flights.delete(flight);
      }
    };
    const flight: Flight = { ids, landed: Promise.resolve().then(send) };
    this.#flights.add(flight);
  }

  /** Records the result of a batch as soon as all batches before it are complete. */
  #land(target: Target, batch: Batch, rejected: readonly Rejected[]): void {
    this.#landed.set(batch.sequence, { batch, rejected });
    for (;;) {
      const next = this.#landed.get(this.#nextToLand);
      if (next === undefined || this.#failure !== undefined) return;
      this.#landed.delete(this.#nextToLand);
      this.#nextToLand++;
      this.#rejects.add(this.#inputs[next.batch.file], next.rejected);
      if (this.#rejects.count > this.#options.rejectsMax) {
        this.#failure = new TooManyRejected(this.#rejects.count, this.#options.rejectsMax);
        return;
      }
      this.#pass(target, next.batch, next.rejected.length);
    }
  }

  #pass(target: Target, batch: Batch, rejected: number): void {
    const items = batch.records.length + batch.problems.length;
    const hasRows = hasBareVectors(this.#inputs[batch.file].format);
    this.#state = {
      ...this.#state,
      ...target.statePart,
      position: batch.end,
      rows: this.#state.rows + (hasRows ? items : 0),
      acknowledged: this.#state.acknowledged + items - rejected,
      rejected: this.#rejects.count,
      ignored: withIgnored(this.#state.ignored ?? noneIgnored, batch),
    };
    if (!batch.isWithin) this.#resumable = this.#state;
    this.#progress?.update({ bytes: batch.bytesRead, records: this.#state.acknowledged });
    if (performance.now() - this.#stateSavedAt >= stateEveryMs) this.#saveState();
  }

  /** Saves the state for the next run, and throws an error with a message for the user. */
  async #fail(target: Target, failure: unknown): Promise<never> {
    if (failure instanceof TooManyRejected) {
      const outcome = await target.abandon();
      this.#forgetState();
      const stored = outcome ?? this.#storedUpToHere();
      throw new CommandError(
        `${failure.message} ${stored}\nCorrect the input (--rejects FILE saves what was rejected), or allow more, and run the command again: it begins at the start, and sending a record twice changes nothing.`,
        { cause: failure },
      );
    }
    await this.#keepProgress(target);
    const wayOn = this.#wayOn(isQuiverError(failure, "connection_failed"));
    if (isQuiverError(failure) || failure instanceof CommandError || isOfTheSystem(failure))
      throw new CommandError(`${messageFor(failure)}\n${wayOn}`, { cause: failure });
    this.#context.say(wayOn);
    throw failure;
  }

  /** What is written, whatever became of the requests that were in progress. */
  #storedUpToHere(): string {
    const { acknowledged, position } = this.#state;
    return acknowledged === 0
      ? (this.#outcome ?? "No record was acknowledged.")
      : `${areStored(acknowledged)}${this.#options.mode === "transaction" ? " in an open transaction, and not visible yet," : ""} up to ${endOf(this.#inputs, position)}.`;
  }

  #wayOn(isPassing: boolean): string {
    const stored = this.#storedUpToHere();
    if (this.#state.acknowledged === 0) return stored;
    const run = isPassing ? "Run" : "When the cause is fixed, run";
    if (!this.#isStateSaved)
      return `${stored} ${run} the command again: it begins at the start, and sending a record twice changes nothing.`;
    return `${stored} ${run} ${sameCommand(this.#options)} again to resume after ${endOf(this.#inputs, this.#resumable.position)}; the progress is saved in ${this.#statePath}.`;
  }

  /**
   * Leaves behind what the next run goes on from. Where nothing was acknowledged that is nothing, neither a state nor a transaction; nor a
   * transaction that no run can go on with.
   */
  async #keepProgress(target: Target): Promise<void> {
    const isLost = this.#options.mode === "transaction" && this.#statePath === undefined;
    if (this.#state.acknowledged === 0 || isLost) {
      try {
        // Somebody waits for the end of the import.
        this.#outcome = await target.abandon({ retries: 0, timeoutMs: interruptGraceMs });
        this.#isAbandoned = true;
        this.#state = { ...this.#state, acknowledged: 0 };
        return this.#forgetState();
      } catch (error) {
        // The import has ended already, and says why. The state names the transaction that stays open, for the next run.
        if (!isQuiverError(error)) throw error;
      }
    }
    this.#saveState();
  }

  /** Saves the state as soon as there is something to go on from: an acknowledged record, or an open transaction. */
  #saveState(): void {
    this.#stateSavedAt = performance.now();
    if (this.#statePath === undefined || this.#stateProblem !== undefined) return;
    if (this.#state.acknowledged === 0 && this.#state.transactionId === null) return;
    try {
      saveState(this.#statePath, this.#resumable);
      this.#isStateSaved = true;
    } catch (error) {
      this.#stateProblem = (error as Error).message;
      this.#context.say(
        `Cannot save the progress of the import in ${this.#statePath} (${this.#stateProblem}); after an interruption it would start from the beginning. Use --state FILE to save it elsewhere.`,
      );
    }
  }

  #forgetState(): void {
    this.#isStateSaved = false;
    if (this.#statePath !== undefined) deleteState(this.#statePath);
  }

  #showProgress(): void {
    const progress = showProgress({
      totalBytes: this.#inputs.reduce((sum, { size }) => sum + size, 0),
      inRecords: this.#options.input.foreign?.server !== undefined,
      start: { bytes: bytesBefore(this.#inputs, this.#state), records: this.#state.acknowledged },
      quiet: this.#options.quiet,
      stream: this.#context.stderr,
    });
    this.#progress = progress;
    this.#context.say = (line) => progress.say(line);
  }

  #report(outcome: ImportReport["outcome"]): ImportReport {
    const seconds = (performance.now() - this.#startedAt) / 1000;
    const thisRun = this.#state.acknowledged - this.#acknowledgedBefore;
    const rejected = this.#rejects.count;
    const interrupted = outcome === "interrupted";
    const ignored = this.#state.ignored ?? noneIgnored;
    return {
      collection: this.#options.collection,
      mode: this.#options.mode,
      files: this.#options.input.files,
      outcome,
      records: this.#state.acknowledged,
      records_this_run: thisRun,
      rejected,
      rejected_lines: this.#rejects.kept,
      records_with_ignored_fields: ignored.lines,
      ignored_fields: ignored.fields.map(([field, records]) => ({ field, records })),
      resumed: this.#resumed,
      seconds: Math.round(seconds * 1000) / 1000,
      records_per_second: Math.round(thisRun / Math.max(seconds, 0.001)),
      transaction_id: this.#isAbandoned
        ? null
        : (this.#target?.statePart.transactionId ?? this.#state.transactionId),
      state_file: interrupted && this.#isStateSaved ? (this.#statePath ?? null) : null,
      resume_after: interrupted && this.#isStateSaved ? endOf(this.#inputs, this.#resumable.position) : null,
      exit_code: interrupted ? exitCodes.interrupted : rejected > 0 ? exitCodes.rejected : exitCodes.ok,
    };
  }
}

class TooManyRejected extends Error {
  constructor(count: number, max: number) {
    super(`Stopped: ${wereRejected(count)}, more than --max-rejects ${max} allows.`);
  }
}

/** A file that cannot be read or written any more, for example. */
const isOfTheSystem = (error: unknown): error is Error =>
  error instanceof Error && typeof (error as NodeJS.ErrnoException).syscall === "string";

/** How far an import has come: `line 1,000 of docs.jsonl`. */
const endOf = (inputs: readonly Input[], { file, number }: Position): string =>
  `${inputs[file].unit} ${formatCount(number)} of ${nameOf(inputs[file].path)}`;

const areStored = (count: number): string =>
  `${countOf(count, "record")} ${count === 1 ? "is" : "are"} stored`;
const wereRejected = (count: number): string =>
  `${countOf(count, "line")} ${count === 1 ? "was" : "were"} rejected`;

/** The command that resumes an interrupted import. */
const sameCommand = ({ resume }: Pick<ImportOptions, "resume">) =>
  resume ? "the same command" : "the same command without --no-resume";

/** The report as text. @param options of the import */
export function describeReport(report: ImportReport, options: Pick<ImportOptions, "resume">): string {
  const { collection, mode, outcome, records, rejected, seconds, records_per_second, state_file } = report;
  const resumed = report.resumed ? ` (${formatCount(report.records_this_run)} of them in this run)` : "";
  const speed = `in ${formatDuration(seconds * 1000)}, ${formatCount(records_per_second)} records/s`;
  const lines: string[] = [];
  if (outcome === "interrupted") {
    lines.push(`Interrupted: ${areStored(records)}${resumed}.`);
    if (mode === "transaction")
      lines.push(
        records > 0 ? "They are in an open transaction and not visible yet." : "Its transaction was aborted.",
      );
    if (state_file !== null)
      lines.push(
        `Run ${sameCommand(options)} again to resume after ${report.resume_after}; the progress is saved in ${state_file}.`,
      );
  } else {
    lines.push(
      `Imported ${countOf(records, "record")}${resumed} into ${JSON.stringify(collection)} ${speed}.`,
    );
  }
  if (report.records_with_ignored_fields > 0) {
    const fields = report.ignored_fields
      .slice(0, 10)
      .map(({ field, records }) => `${field} (${formatCount(records)})`);
    const more = report.ignored_fields.length > 10 ? ", ..." : "";
    const count = report.records_with_ignored_fields;
    lines.push(`Unknown fields were removed from ${countOf(count, "record")}: ${fields.join(", ")}${more}.`);
  }
  if (rejected > 0) lines.push(`${wereRejected(rejected)}.`);
  return lines.join("\n");
}

const noneIgnored: Ignored = { lines: 0, fields: [] };
const ignoredFieldsMax = 100;

/** Adds the removed fields of a batch's records. */
function withIgnored(before: Ignored, { records }: Batch): Ignored {
  const cut = records.flatMap(({ ignored }) => (ignored === undefined ? [] : [ignored]));
  if (cut.length === 0) return before;
  const counts = new Map(before.fields);
  for (const field of cut.flat())
    if (counts.has(field) || counts.size < ignoredFieldsMax) counts.set(field, (counts.get(field) ?? 0) + 1);
  return { lines: before.lines + cut.length, fields: [...counts] };
}

function idsOf({ records }: Batch): Set<string> {
  const ids = new Set<string>();
  for (const { id } of records) if (id !== undefined) ids.add(id);
  return ids;
}

function bytesBefore(inputs: readonly Input[], { position }: ImportState): number {
  return inputs.slice(0, position.file).reduce((sum, { size }) => sum + size, 0);
}

/** Whether two sets share an element. Node.js 20 has no `isDisjointFrom`. */
function sharesAny(some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  for (const each of some) if (others.has(each)) return true;
  return false;
}

/**
 * Waits for promises until an interruption. A `Promise.race` with one long-lived promise for the interruption would retain the result of
 * every race, and so every batch of the import.
 */
class InterruptibleReading {
  readonly #signal: AbortSignal;
  #wake: (() => void) | undefined;

  /** @param act called once, when the signal aborts */
  constructor(signal: AbortSignal, act: () => void) {
    this.#signal = signal;
    const stop = () => {
      act();
      this.#wake?.();
    };
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  }

  /** The value of the promise; undefined as soon as the signal is aborted. */
  wait<T>(promise: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      promise.then(resolve, reject);
      this.#wake = () => resolve(undefined);
      if (this.#signal.aborted) this.#wake();
    });
  }
}
