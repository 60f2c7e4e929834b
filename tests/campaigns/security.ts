// Does the server protect secrets, and do hostile requests get no access and cost little?
//
//   node tests/campaigns/security.ts [--guesses 200] [--keys 10] [--length 16384] [--runs 2] [--requests 500]
//
// All parts run against one server, one after the other; each response and each log line is searched for secrets, paths and stack traces
// (security/probed-server.ts).
//
//   reach          keys for random collections against a reference implementation that matches patterns; revoked ones are refused
//   hidden         a key with a filter asks two collections, one with records that it does not see: all answers must be equal
//   guesses        nearly correct keys
//   pollution      `__proto__` and its like in every object of every body, in paths, query strings, names, metadata
//   pathological   texts that slow down regular expressions, in every field, timed against harmless ones
//   faults         an engine that fails on every call
//
// The required roles of all endpoints are tested in packages/server/test/authorization.test.ts.

import { operations } from "@quiverdb/engine/operations/operations";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, type Say, say } from "./campaign.ts";
import type { Figures } from "./figures.ts";
import { probeFaults } from "./security/faults.ts";
import { probeHidden } from "./security/hidden.ts";
import { probePathological } from "./security/pathological.ts";
import { probePollution } from "./security/pollution.ts";
import { bodies, collectionBody, probeServer } from "./security/probed-server.ts";
import { probeGuesses, probeReach } from "./security/reach.ts";

export type SecurityOptions = {
  readonly seed: number;
  readonly guesses: number;
  readonly keys: number;
  /** Characters of a text in a body. */
  readonly length: number;
  /** How often each hostile text is sent. */
  readonly runs: number;
  /** Of a key with a filter. */
  readonly requests: number;
};

/** @throws Error at the first violation */
export async function probeSecurity(options: SecurityOptions, tell: Say): Promise<Figures> {
  const random = randomNumbers(options.seed);
  const probed = await probeServer();
  try {
    for (const name of [
      "createCollection",
      "createDenseIndex",
      "createSparseIndex",
      "createTextIndex",
    ] as const) {
      const body = name === "createCollection" ? collectionBody("c") : bodies[name];
      const { status, text } = await probed.call(name, { collection_id: "c" }, body);
      if (status !== 201) throw new Error(`${name}: ${status} ${text}`);
    }
    const reached = await probeReach(probed, options.keys, random);
    tell(`reach: ${reached} pairs of key and collection`);
    const hidden = await probeHidden(probed, options.requests, random);
    tell(
      `hidden: ${hidden} requests of a key with a filter, none answered otherwise because of hidden records`,
    );
    const guesses = await probeGuesses(probed, options.guesses, random);
    tell(`guesses: ${guesses} keys that are nearly right, none got in`);
    const polluted = await probePollution(probed);
    tell(`pollution: ${polluted} requests, no prototype changed`);
    const slowest = await probePathological(probed, options.length, options.runs);
    tell(
      `pathological: ${slowest.pairs} texts, at most ${slowest.ratio.toFixed(1)} times a harmless one (${slowest.what})`,
    );
    const faults = await probeFaults(probed);
    tell(`faults: ${faults} endpoints on a broken engine`);
    return {
      "endpoints in the list": Object.keys(operations).length,
      "pairs of limited key and collection": reached,
      "answers to keys with a filter, same without hidden records": hidden,
      "nearly right keys": guesses,
      "requests with keys like `__proto__`": polluted,
      "pathological texts": slowest.pairs,
      "slowest of them, against harmless text": `${slowest.ratio.toFixed(1)} times (${slowest.what})`,
      "endpoints called on a broken engine": faults,
      "answers searched for secrets, paths and stacks": probed.asked,
      found: "none",
    };
  } finally {
    await probed.end();
  }
}

if (import.meta.main)
  await command({
    name: "security",
    options: { seed: 1, guesses: 200, keys: 10, length: 16_384, runs: 2, requests: 500 },
    run: (options) => probeSecurity(options, say),
  });
