// A process, or a thread of one, that opens a data directory, reports it, and holds it until it gets a command to close or is killed.
//
//   node owning-process.ts DIRECTORY [LOCK_WAIT_MS]    prints "waits: MESSAGE", "open" or "refused: MESSAGE"; a line on stdin closes

import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { openDatabase } from "../../src/database/database.ts";

const [directory, lockWaitMs] = isMainThread ? process.argv.slice(2) : (workerData as string[]);
const say = (line: string) => (parentPort ? parentPort.postMessage(line) : process.stdout.write(`${line}\n`));

try {
  const database = await openDatabase({
    dataDir: directory,
    lockWaitMs: Number(lockWaitMs ?? 0),
    log: { info: () => {}, warn: (_fields, message) => say(`waits: ${message}`), error: () => {} },
  });
  say("open");
  if (isMainThread) process.stdin.once("data", () => void database.close().then(() => process.exit(0)));
  // A thread has it until it is ended.
  else parentPort?.once("message", () => void database.close().then(() => process.exit(0)));
} catch (error) {
  say(`refused: ${(error as Error).message}`);
  process.exit(1);
}
