// Serves one directory after another in one process, on messages of the parent: {open} -> {url} or {error}, {close} -> {closed}.

import type { RunningServer } from "@quiverdb/server/running-server";
import { startServer } from "@quiverdb/server/server";

export type HostRequest = { open: string } | { close: true };
export type HostAnswer = { url: string } | { error: string } | { closed: true };

let server: RunningServer | undefined;

async function answer(request: HostRequest): Promise<HostAnswer> {
  if ("open" in request) {
    server = await startServer({ dataDir: request.open, port: 0, noAuth: true, logLevel: "silent" });
    return { url: server.url };
  }
  await server?.close();
  return { closed: true };
}

process.on("message", (request: HostRequest) => {
  answer(request)
    .catch((error: unknown): HostAnswer => ({ error: (error as Error).stack ?? String(error) }))
    .then((told) => process.send?.(told))
    .catch(() => process.exit(1));
});
process.on("disconnect", () => process.exit());
