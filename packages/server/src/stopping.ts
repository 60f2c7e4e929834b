// How are the connections of a stopping server closed?
//
// Requests that have arrived are answered. Node.js closes idle connections only once: those that were being answered at that moment, or had
// just been accepted, become idle later.

import type { FastifyInstance } from "fastify";
import type { Connections } from "./connections.ts";

/** Interval between two sweeps of the connections, in milliseconds. */
const sweepMs = 100;

/** Closes the application, and resolves when the last connection is closed. @param graceMs for uploads and long answers to finish */
export async function drainConnections(
  app: FastifyInstance,
  connections: Connections,
  graceMs: number,
): Promise<void> {
  connections.endSilent();
  const graceEndMs = performance.now() + graceMs;
  const sweeper = setInterval(() => {
    connections.endSilent();
    app.server.closeIdleConnections();
    if (performance.now() >= graceEndMs) connections.endAllButWorking();
  }, sweepMs);
  try {
    await app.close();
  } finally {
    clearInterval(sweeper);
  }
}
