// A thread in which the engine runs as it would outside of Node.js: no module of Node.js can be imported, and its globals are gone.

import { readFileSync } from "node:fs";
import { isBuiltin, registerHooks } from "node:module";
import { parentPort } from "node:worker_threads";

export type PlainReport = {
  /** What the thread still knows of Node.js. */
  readonly left: readonly string[];
  /** How the dense index has encoded its vectors: it has a graph. */
  readonly dataType: string | undefined;
  readonly hash: string;
  readonly answers: readonly unknown[];
};

const port = parentPort;
const timers = { setTimeout, setInterval };

const names = ["process", "Buffer", "setImmediate", "clearImmediate", "global"];
const globals = names.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const);
const giveGlobals = () => {
  for (const [name, descriptor] of globals)
    if (descriptor !== undefined) Object.defineProperty(globalThis, name, descriptor);
};
const takeGlobals = () => {
  for (const name of names) Reflect.deleteProperty(globalThis, name);
};

registerHooks({
  resolve(specifier, context, next) {
    if (isBuiltin(specifier)) throw new Error(`${specifier} is a module of Node.js`);
    return next(specifier, context);
  },
  // Node's own reader of TypeScript needs them; no code of the module runs meanwhile.
  load(url, context, next) {
    giveGlobals();
    try {
      return next(url, context);
    } finally {
      takeGlobals();
    }
  },
});
// Node makes the web's interfaces when they are first named, and needs its globals for that.
for (const name of Object.getOwnPropertyNames(globalThis)) Reflect.get(globalThis, name);
takeGlobals();
// Timers are numbers, as in a browser.
for (const [name, start] of Object.entries(timers))
  Object.assign(globalThis, { [name]: (act: () => void, ms?: number) => Number(start(act, ms)) });

const left: string[] = [];
for (const name of ["process", "Buffer", "setImmediate"]) if (name in globalThis) left.push(name);
for (const name of ["node:fs", "buffer"])
  await import(name).then(
    () => left.push(name),
    () => {},
  );

const { provideKernels } = await import("@quiverdb/kernels/loader");
provideKernels((build) => readFileSync(new URL(`../../../kernels/dist/${build}.wasm`, import.meta.url)));
const { PlainCollection } = await import("./plain-collection.ts");
const { definition, indexes, takeSteps } = await import("./plain-steps.ts");
const { toHex } = await import("../../src/base/bytes.ts");

const collection = new PlainCollection(definition);
await collection.createIndex("dense", indexes.dense);
await collection.createIndex("sparse", indexes.sparse);
await collection.createIndex("tf-idf", indexes.text);
const answers = await takeSteps(collection);
if (collection.failure !== undefined) throw collection.failure;
const dataType = collection.status("dense")?.data_type;
port?.postMessage({ left, dataType, hash: toHex(collection.hash), answers } satisfies PlainReport);
// What is left in the background is not waited for.
port?.close();
