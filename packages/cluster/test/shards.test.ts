// Are several shards searched while nodes are dead or paused, and does a node that has lost everything get its shards again?

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DevCluster, DevNode } from "../src/dev/dev-cluster.ts";
import { freePorts } from "../src/dev/servers.ts";
import { missing, natsServer, remark } from "./nats.ts";

const cli = resolve(import.meta.dirname, "../../cli/src/main.ts");

describe.skipIf(missing !== undefined)(`a collection of shards on three nodes (${remark})`, () => {
  let directory: string;
  let cluster: DevCluster;
  const ask = async (i: number, method: string, path: string, body?: unknown) => {
    const answer = await fetch(`${cluster.urls[i]}${path}`, {
      method,
      headers: { "content-type": "application/json", "x-quiver-consistency": "strict" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await answer.text();
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    return { status: answer.status, json: (text === "" ? undefined : JSON.parse(text)) as any };
  };
  const path = (name: string) => `/vectordb/collections/${name}`;
  const count = 300;
  const record = (i: number) => ({
    id: `r${i}`,
    dense_values: [i % 7, i % 11, 1],
    text: `word${i % 5} all`,
    metadata: { n: i },
  });
  const search = { query_vector: [3, 4, 1], query_text: "word3 all", top_k: 20, exact: true };
  const found = async (i: number, name: string) => {
    const { status, json } = await ask(i, "POST", `${path(name)}/search/hybrid`, search);
    expect(status, JSON.stringify(json)).toBe(200);
    return json;
  };

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), "quiver-shards-"));
    cluster = await DevCluster.start({
      nats: natsServer,
      directory,
      quiver: [process.execPath, cli],
      args: ["--no-console", "--log-level", "warn"],
    });
    for (const [name, config] of [
      ["sharded", { shards: 12, replication_factor: 2 }],
      ["whole", {}],
    ] as const) {
      const created = await ask(0, "POST", "/vectordb/collections", {
        name,
        dense_vector: { enabled: true, dimension: 3, auto_create_index: true },
        tf_idf_options: { enabled: true },
        config,
      });
      expect(created.status, JSON.stringify(created.json)).toBe(201);
      const index = { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 };
      expect((await ask(0, "POST", `${path(name)}/indexes/tf-idf`, index)).status).toBe(201);
      for (let from = 0; from < count; from += 100) {
        const vectors = Array.from({ length: 100 }, (_, i) => record(from + i));
        const written = await ask(from / 100, "POST", `${path(name)}/streaming/upsert`, { vectors });
        expect(written.status, JSON.stringify(written.json)).toBe(200);
      }
    }
  });
  afterAll(async () => {
    await cluster?.stop();
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  });

  test("[Y15] every node answers like one that has all", async () => {
    for (const i of [0, 1, 2]) {
      expect(await found(i, "sharded")).toEqual(await found(i, "whole"));
      const filter = { n: { lt: 100 } };
      expect((await ask(i, "POST", `${path("sharded")}/vectors/count`, { filter })).json).toEqual({
        count: 100,
      });
    }
    const { json } = await ask(1, "GET", path("sharded"));
    expect(json).toMatchObject({ vectors_count: count, config: { shards: 12, replication_factor: 2 } });
    const limited = { name: "x", dense_vector: { enabled: true, dimension: 3 } };
    for (const config of [{ shards: 0 }, { shards: 1_025 }, { shards: 2, max_vectors: 5 }])
      expect((await ask(0, "POST", "/vectordb/collections", { ...limited, config })).status).toBe(400);
  });

  test.each([1, 3])(
    "[Y1] [Y15] what is written to %i shards while nodes still make them is in all of them",
    async (shards) => {
      for (let k = 0; k < 4; k++) {
        const name = `young${shards}-${k}`;
        let written = 0;
        let isOver = false;
        // Without a position, as clients do that know the collection from elsewhere.
        const writer = async (node: number) => {
          for (let i = 0, done = 0; done < 6 && !isOver; i++) {
            const vectors = Array.from({ length: 12 }, (_, j) => ({
              id: `${node}-${i}-${j}`,
              dense_values: [i, j],
            }));
            const { status } = await fetch(`${cluster.urls[node]}${path(name)}/streaming/upsert`, {
              method: "POST",
              headers: { "content-type": "application/json" },
              body: JSON.stringify({ vectors }),
            });
            if (status !== 200) continue;
            done++;
            written += vectors.length;
          }
        };
        const writers = [writer(1), writer(2)];
        try {
          const created = await ask(0, "POST", "/vectordb/collections", {
            name,
            dense_vector: { enabled: true, dimension: 2, auto_create_index: true },
            config: { shards, replication_factor: shards === 1 ? 3 : 1 },
          });
          expect(created.status, JSON.stringify(created.json)).toBe(201);
          await Promise.all(writers);
        } finally {
          isOver = true;
        }
        for (const node of [0, 1, 2])
          expect((await ask(node, "POST", `${path(name)}/vectors/count`, {})).json).toEqual({
            count: written,
          });
        expect((await ask(0, "DELETE", path(name))).status).toBe(204);
      }
    },
  );

  test("[Y11] what one node alone holds is in every node's list of the loaded", async () => {
    const single = {
      name: "single",
      dense_vector: { enabled: true, dimension: 3 },
      config: { replication_factor: 1 },
    };
    expect((await ask(0, "POST", "/vectordb/collections", single)).status).toBe(201);
    for (const i of [0, 1, 2])
      expect((await ask(i, "GET", "/vectordb/collections/loaded")).json).toEqual([
        "sharded",
        "single",
        "whole",
      ]);
    expect((await ask(0, "DELETE", path("single"))).status).toBe(204);
  });

  test("[Y17] a paused node, and then a dead one, fail no search while others have its shards", async () => {
    const expected = await found(0, "sharded");
    cluster.nodes[2].pause();
    // A second for the first call that meets it: an explained search asks each shard three times, and its texts.
    const begun = performance.now();
    const explained = await ask(0, "POST", `${path("sharded")}/search/hybrid`, { ...search, explain: true });
    expect(explained.status, JSON.stringify(explained.json)).toBe(200);
    expect(performance.now() - begun).toBeLessThan(2_500);
    for (let i = 0; i < 12; i++) expect(await found(i % 2, "sharded")).toEqual(expected);
    cluster.nodes[2].resume();
    await cluster.nodes[1].stop("SIGKILL");
    for (let i = 0; i < 12; i++) expect(await found(i % 2 === 0 ? 0 : 2, "sharded")).toEqual(expected);
    await cluster.nodes[2].stop("SIGKILL");
    // The node that is left lacks about a third of the shards, and has the others.
    // Some shards are nowhere: the error names one of them. Others can still be read.
    const counted = await ask(0, "POST", `${path("sharded")}/vectors/count`, {});
    expect(counted.status).toBe(503);
    expect(counted.json.error).toMatchObject({
      code: "not_ready",
      message: expect.stringMatching(/^The shard \d+ of the collection 'sharded' is served by no node/),
      details: { collection: "sharded", shard: expect.any(Number) },
    });
    const statuses = new Set<number>();
    for (let i = 0; i < 40; i++)
      statuses.add((await ask(0, "GET", `${path("sharded")}/vectors/r${i}`)).status);
    expect([...statuses].sort()).toEqual([200, 503]);
    for (const i of [1, 2]) cluster.nodes[i].start();
    for (const i of [1, 2]) await cluster.nodes[i].ready();
    for (const i of [0, 1, 2]) expect(await found(i, "sharded")).toEqual(expected);
  });

  test("[Y17] what only a paused node has is refused with the name of the shard, soon", async () => {
    const config = { shards: 6, replication_factor: 1 };
    const body = { name: "solo", tf_idf_options: { enabled: true }, config };
    expect((await ask(0, "POST", "/vectordb/collections", body)).status).toBe(201);
    const vectors = Array.from({ length: 60 }, (_, i) => ({ id: `r${i}`, text: "a" }));
    expect((await ask(0, "POST", `${path("solo")}/streaming/upsert`, { vectors })).status).toBe(200);
    const { json } = await ask(0, "GET", "/cluster/status");
    type Held = { name: string; replicas: string[] };
    const held = (json.collections as Held[]).filter(({ name }) => name.startsWith("solo#"));
    const victim = cluster.nodes.findIndex(({ name }) => held.some(({ replicas }) => replicas[0] === name));
    const asked = cluster.nodes.findIndex(
      ({ name }, i) => i !== victim && held.some(({ replicas }) => replicas[0] === name),
    );
    cluster.nodes[victim].pause();
    try {
      const begun = performance.now();
      const answers = await Promise.all([
        ask(asked, "POST", `${path("solo")}/vectors/count`, {}),
        ask(asked, "GET", path("solo")),
        ...vectors.slice(0, 20).map(({ id }) => ask(asked, "GET", `${path("solo")}/vectors/${id}`)),
      ]);
      expect(performance.now() - begun).toBeLessThan(15_000);
      const failed = answers.filter(({ status }) => status !== 200);
      expect(failed.length).toBeGreaterThan(2);
      for (const {
        status,
        json: { error },
      } of failed) {
        expect([status, error.code]).toEqual([503, "not_ready"]);
        expect(error.message).toMatch(/^The shard \d of the collection 'solo' is served by no node/);
      }
    } finally {
      cluster.nodes[victim].resume();
    }
    await expect.poll(async () => (await ask(asked, "DELETE", path("solo"))).status).toBe(204);
  });

  test("[Y17] what is passed on whole to a paused node is answered by another one; a write is refused soon", async () => {
    const body = { name: "two", tf_idf_options: { enabled: true }, config: { replication_factor: 2 } };
    expect((await ask(0, "POST", "/vectordb/collections", body)).status).toBe(201);
    const vectors = Array.from({ length: 20 }, (_, i) => ({ id: `r${i}`, text: "a" }));
    expect((await ask(0, "POST", `${path("two")}/streaming/upsert`, { vectors })).status).toBe(200);
    const { json } = await ask(0, "GET", "/cluster/status");
    const held = (json.collections as { name: string; replicas: string[] }[]).find(
      ({ name }) => name === "two",
    );
    const places = cluster.nodes.map(({ name }) => held?.replicas.includes(name));
    const [asked, victim] = [places.indexOf(false), places.lastIndexOf(true)];
    // The one that has made it is asked first for a while, and drops it when the others have it.
    await expect
      .poll(async () => (await ask(asked, "POST", `${path("two")}/vectors/count`, {})).json)
      .toEqual({ count: 20 });
    const send = async (method: string, end: string, sent?: object) => {
      const begun = performance.now();
      const { status } = await fetch(`${cluster.urls[asked]}${path("two")}${end}`, {
        method,
        headers: { "content-type": "application/json" },
        ...(sent && { body: JSON.stringify(sent) }),
      });
      return { status, ms: performance.now() - begun };
    };
    cluster.nodes[victim].pause();
    try {
      const read = await Promise.all(
        Array.from({ length: 12 }, (_, i) =>
          i % 2 === 0 ? send("POST", "/vectors/count", {}) : send("GET", `/vectors/r${i}`),
        ),
      );
      for (const { status, ms } of read) {
        expect(status).toBe(200);
        expect(ms).toBeLessThan(3_000);
      }
      const changed = await Promise.all(
        vectors.slice(0, 8).map((vector) => send("POST", "/streaming/upsert", { vectors: [vector] })),
      );
      for (const { status, ms } of changed) {
        expect([200, 503]).toContain(status);
        expect(ms).toBeLessThan(12_000);
      }
    } finally {
      cluster.nodes[victim].resume();
    }
    await expect.poll(async () => (await ask(asked, "DELETE", path("two"))).status).toBe(204);
  });

  test("[Y4] a node knows the collections of which a request is passed on to it, also where it is behind", async () => {
    const behind = cluster.nodes[2];
    const names: string[] = [];
    const held = async () => {
      const { json } = await ask(0, "GET", "/cluster/status");
      return json.collections.filter(
        ({ name, replicas }: { name: string; replicas: string[] }) =>
          names.includes(name) && replicas.includes(behind.name),
      ).length;
    };
    behind.pause();
    const answers: Promise<Response>[] = [];
    try {
      // Where a collection lies is chance.
      for (let i = 0; (await held()) < 3; i++) {
        const name = `new${i}`;
        const body = { name, tf_idf_options: { enabled: true }, config: { replication_factor: 1 } };
        expect((await ask(0, "POST", "/vectordb/collections", body)).status).toBe(201);
        names.push(name);
        // If it is on the paused node, that reads this before it has read of the collection.
        answers.push(fetch(`${cluster.urls[0]}${path(name)}`));
      }
      await delay(100);
    } finally {
      behind.resume();
    }
    for (const answer of answers) expect((await answer).status).toBe(200);
    for (const name of names) expect((await ask(0, "DELETE", path(name))).status).toBe(204);
  });

  test("[Y4] what an alias stands for is decided once, also where the node that is asked is behind", async () => {
    const asked = cluster.nodes[2];
    const sides = ["blue", "green"];
    const moved: string[] = [];
    for (let i = 0; moved.length < 3; i++) {
      const names = sides.map((side) => `${side}${i}`);
      for (const name of names) {
        const body = { name, tf_idf_options: { enabled: true }, config: { replication_factor: 1 } };
        expect((await ask(0, "POST", "/vectordb/collections", body)).status).toBe(201);
      }
      const { json } = await ask(0, "GET", "/cluster/status");
      const [blue, green] = names.map(
        (name) => json.collections.find((each: { name: string }) => each.name === name).replicas[0],
      );
      // The node that is asked has neither, and they are apart: where a collection lies is chance.
      if (blue !== green && blue !== asked.name && green !== asked.name) moved.push(`${i}`);
      else for (const name of names) expect((await ask(0, "DELETE", path(name))).status).toBe(204);
    }
    const put = (i: string, side: string) =>
      ask(0, "PUT", `/vectordb/aliases/live${i}`, { collection: side + i });
    for (const i of moved) expect((await put(i, "blue")).status).toBe(200);
    for (const i of moved) expect((await ask(2, "GET", path(`live${i}`))).json.name).toBe(`blue${i}`);
    asked.pause();
    const answers: { readonly i: string; readonly isStrict: boolean; readonly answer: Promise<Response> }[] =
      [];
    try {
      for (const i of moved) {
        expect((await put(i, "green")).status).toBe(200);
        for (const isStrict of [true, false]) {
          const headers = isStrict ? { "x-quiver-consistency": "strict" } : {};
          const answer = fetch(cluster.urls[2] + path(`live${i}`), { headers });
          answers.push({ i, isStrict, answer });
        }
      }
      await delay(100);
    } finally {
      asked.resume();
    }
    for (const { i, isStrict, answer } of answers) {
      const told = (await (await answer).json()) as { name?: string };
      expect(isStrict ? [`green${i}`] : [`blue${i}`, `green${i}`]).toContain(told.name);
    }
    for (const i of moved) {
      expect((await ask(0, "DELETE", `/vectordb/aliases/live${i}`)).status).toBe(204);
      for (const side of sides) expect((await ask(0, "DELETE", path(side + i))).status).toBe(204);
    }
  });

  test("[Y4] a merge sees all that was done to its copy, also at a node that is just getting the copy", async () => {
    const body = { name: "main", dense_vector: { enabled: true, dimension: 64 } };
    expect((await ask(0, "POST", "/vectordb/collections", body)).status).toBe(201);
    const many = (from: number) =>
      Array.from({ length: 2_000 }, (_, i) => ({ id: `m${from + i}`, dense_values: Array(64).fill(i + 1) }));
    for (let from = 0; from < 40_000; from += 2_000)
      expect((await ask(0, "POST", `${path("main")}/streaming/upsert`, { vectors: many(from) })).status).toBe(
        200,
      );
    const late = cluster.nodes[2];
    type Told = { node: string; not_served?: { collection: string; copying?: { from: string } }[] };
    const wanted = async (i: number) => {
      const { json } = await ask(i, "GET", "/cluster/status");
      const { not_served = [] } = json.nodes.find(({ node }: Told) => node === cluster.nodes[i].name) as Told;
      return not_served.find(({ collection }) => collection === "draft");
    };
    late.pause();
    try {
      expect((await ask(0, "POST", `${path("main")}/copy`, { name: "draft" })).status).toBe(201);
      await expect
        .poll(async () => [await wanted(1), (await ask(1, "GET", path("draft"))).status], { timeout: 20_000 })
        .toEqual([undefined, 200]);
    } finally {
      late.resume();
    }
    let from: string | undefined;
    await expect
      .poll(
        async () => {
          from = (await wanted(2))?.copying?.from;
          return from;
        },
        { timeout: 20_000, interval: 1 },
      )
      .toBeDefined();
    // The node that gives the copy is paused while more is done, which the other one must apply behind the copy.
    const giver = cluster.nodes.findIndex(({ name }) => name === from);
    cluster.nodes[giver].pause();
    let merging: Promise<{ status: number }>;
    try {
      const other = 1 - giver;
      for (let i = 0; i < 300; i += 50)
        await Promise.all(
          Array.from({ length: 50 }, (_, k) =>
            ask(other, "POST", `${path("draft")}/streaming/upsert`, { vectors: many(i + k).slice(0, 40) }),
          ),
        );
      expect((await ask(other, "DELETE", `${path("draft")}/versions/tags/origin`)).status).toBe(204);
      merging = ask(2, "POST", `${path("main")}/merge`, { from: "draft" });
      await delay(100);
    } finally {
      cluster.nodes[giver].resume();
    }
    expect((await merging).status).toBe(410);
    for (const name of ["draft", "main"]) expect((await ask(0, "DELETE", path(name))).status).toBe(204);
  });

  test("[Y3] a second node with the name of one that lives is refused, and ends", async () => {
    const [port] = await freePorts(1);
    const monitors = cluster.servers.servers.map(({ monitor }) => monitor).join(",");
    const options = {
      nats: natsServer,
      directory: join(directory, "second"),
      quiver: [process.execPath, cli] as const,
      args: ["--no-console", "--log-level", "warn", "--cluster-monitor", monitors],
    };
    mkdirSync(options.directory);
    const second = new DevNode("n1", port, options, cluster.servers.urls);
    second.start();
    await expect.poll(() => second.hasEnded, { timeout: 30_000 }).toBe(true);
    expect(second.hasSaid(`The cluster has a node 'n1', which lives at ${cluster.urls[0]}.`)).toBe(true);
    const { json } = await ask(1, "GET", "/cluster/status");
    expect(json.nodes[0]).toMatchObject({ node: "n1", alive: true, url: cluster.urls[0] });
  });

  test("[Y6] a node that has lost its disk gets its shards again, and all replicas are equal", async () => {
    const expected = await found(0, "sharded");
    await cluster.nodes[1].stop("SIGKILL");
    rmSync(cluster.nodes[1].directory, { recursive: true, force: true });
    cluster.nodes[1].start();
    await cluster.nodes[1].ready();
    await expect
      .poll(async () => {
        const { json } = await ask(1, "POST", "/cluster/check");
        return json.collections.map(({ outcome }: { outcome: string }) => outcome);
      })
      .toEqual(Array(13).fill("equal"));
    expect(await found(1, "sharded")).toEqual(expected);
  });

  test("[Y13] a removed node's shards move, also where strict reads were the last that the log has", async () => {
    const expected = await found(0, "sharded");
    for (let i = 0; i < 20; i++) await ask(0, "GET", `${path("sharded")}/versions/current`);
    expect((await ask(0, "POST", "/cluster/remove/n3", {})).status).toBe(200);
    await expect
      .poll(async () => {
        const { json } = await ask(1, "GET", "/cluster/status");
        return json.collections.filter(({ replicas }: { replicas: string[] }) => replicas.includes("n3"));
      })
      .toEqual([]);
    for (const i of [0, 1]) expect(await found(i, "sharded")).toEqual(expected);
  });
});
