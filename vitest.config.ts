// How are the tests run?

import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const all = [
  "packages/*/{src,test}/**/*.test.ts",
  "tests/**/*.test.ts",
  "tools/**/*.test.ts",
  "bench/{servers,shared,sparse,text}/*.test.ts",
  "examples/*.test.ts",
];

/**
 * What `npm test` leaves to `npm run test:full`: tests that start programs, kill them, wait for clocks, drive a browser, or repeat
 * something for long; and those that need the data sets of ../shared. A file that takes more than some 10 s belongs here.
 */
const long = [
  "**/*.shared.test.ts",
  "**/{kill,keeping-kill}.test.ts",
  "tests/campaigns/**/*.test.ts",
  "tests/{garbage,memory-at-rest,model,odd-data/odd-data}.test.ts",
  "tools/{eval,launch,options}.test.ts",
  "examples/*.test.ts",
  "packages/cli/src/{main,backup/*,commands/*,import/foreign}.test.ts",
  "packages/cluster/test/*.test.ts",
  "packages/console/test/console.test.ts",
  "packages/import/src/{import-from,live}.test.ts",
  "packages/mcp/src/server.test.ts",
  "packages/engine/src/database/{check,snapshots}/*.test.ts",
  "packages/engine/src/database/{acknowledgement,background,building-inverted,database,deleted-checkpoints,dense,earlier-versions,filtered-recall,filtered-search,index-size,keeping-inverted,lagging,matching,memory-budget,overload,restricted,toy-kind}.test.ts",
  "packages/engine/src/database/threads/threads.test.ts",
  "packages/engine/src/index/dense/{allowed,hnsw-index,hnsw-matrix,node-order,odd-vectors,walk}.test.ts",
  "packages/engine/src/{index/inverted/mutable-buffer,index/inverted/posting-index,index/sparse/long-lists,index/text/text-index,index/text/text-query,query/scroll}.test.ts",
  "packages/engine/src/{process/data-directory,process/directory-lock,runtime/builders,runtime/readers}.test.ts",
  "packages/server/test/{audit,auth,authorization,cursors,hostile,key-filters,operations,overload}.test.ts",
  "packages/server/test/{snapshots,threads,tls,tracing,transaction-stats,validity}.test.ts",
];

/**
 * Single modules without threads and servers: they leave nothing behind in their process, so that the next file runs there, too, with what is
 * loaded already. The tests of the server failed once in four such runs, and gained a sixth of their processor time.
 */
const together = [
  "packages/{kernels,protocol}/**/*.test.ts",
  "packages/engine/src/{base,collection,filter,index,log,metadata,query,text,vector,views}/**/*.test.ts",
];

/** Campaigns come first. They are short files, which vitest takes for quick ones: at the end the longest of them ran for minutes alone. */
class CampaignsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isCampaign = ({ moduleId }: TestSpecification) => moduleId.includes("/tests/campaigns/");
    const sorted = await super.sort(files);
    return [...sorted.filter(isCampaign), ...sorted.filter((file) => !isCampaign(file))];
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: CampaignsFirst },
    projects: [
      { extends: true, test: { name: "together", include: together, exclude: long, isolate: false } },
      { extends: true, test: { name: "tests", include: all, exclude: [...together, ...long] } },
      { extends: true, test: { name: "long", include: long } },
      {
        // What threads can break holds for a server with serving threads, too. Left out is what has threads of its own, what the same
        // code does in each thread, what only the owner does, and forms of requests.
        extends: true,
        test: {
          name: "with serving threads",
          include: ["packages/server/test/*.test.ts"],
          exclude: [
            "packages/server/test/{bad-input,bulk-bodies,config,filters,log,openapi,request,threads,tls,vector-bytes}.test.ts",
            "packages/server/test/{audit,console,snapshots,transaction-stats}.test.ts",
            "packages/server/test/{auth,authorization,clients,errors,python-client}.test.ts",
          ],
          env: { QUIVER_TEST_SERVING_THREADS: "2" },
        },
      },
      {
        // What is asked of a server can be asked of three nodes of a cluster, each request of the next.
        extends: true,
        test: {
          name: "over three nodes",
          include: [
            "packages/database/src/embedded.test.ts",
            "packages/server/test/{bad-input,changes-events,conditional-writes,endpoints,filters,key-filters,merging}.test.ts",
          ],
          env: { QUIVER_TEST_NODES: "3" },
        },
      },
      {
        // And of collections of three shards, of which each node has two.
        extends: true,
        test: {
          name: "over three shards",
          include: [
            "packages/database/src/embedded.test.ts",
            "packages/server/test/{bad-input,changes-events,conditional-writes,endpoints,filters,key-filters,merging}.test.ts",
          ],
          env: { QUIVER_TEST_NODES: "3", QUIVER_TEST_SHARDS: "3" },
        },
      },
    ],
    // Tests of single modules have no database that would make Node.js the host (base/host.ts).
    setupFiles: ["packages/engine/src/process/node-host.ts", "tests/seed.ts"],
    // A process for each other test file: real LMDB, real workers and shared memory end with it.
    pool: "forks",
    // Tests start servers and worker threads of their own; more files at a time only fight for the cores.
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // What a test waits for takes longer than a second on a busy machine.
    expect: { poll: { timeout: 60_000 } },
    // Node.js itself loads the files, by the type stripping that runs them in production, in the main thread as in
    // workers. Vite's own module runner would compile syntax that Node.js refuses (an enum, say), and would load each
    // module a second time beside the copy that a worker sees.
    experimental: { viteModuleRunner: false },
  },
});
