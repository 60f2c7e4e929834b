// How does an attack run next to the client? As a separate process with a lower priority.
//
//   node attacker.ts '{"port":1,"key":"...","attack":"8 of top_k 10,000"}'
//
// Each connection reads responses at full speed and sends its next request after the response to the previous one. After a rejection it
// sends the next request at once and ignores Retry-After. On SIGTERM it reports the responses and exits.

import { Agent, request } from "node:http";
import { getPriority, setPriority } from "node:os";
import { type Attack, generatedAttacks, namedAttacks } from "./attacks.ts";

export type AttackOrder = { readonly port: number; readonly key: string; readonly attack: string };

/** Number of responses by status; 0 for broken connections. */
export type AttackReport = { readonly statuses: Record<string, number>; readonly bytes: number };

export const allAttacks = (): Attack[] => [
  ...namedAttacks(),
  ...generatedAttacks("read"),
  ...generatedAttacks("write"),
];

if (process.argv[1] === import.meta.filename) {
  const { port, key, attack: name } = JSON.parse(process.argv[2]) as AttackOrder;
  setPriority(Math.min(19, getPriority() + 10));
  const attack = allAttacks().find((each) => each.name === name);
  if (attack === undefined) throw new Error(`there is no attack "${name}"`);
  const agent = new Agent({ keepAlive: true, maxSockets: attack.connections });
  const statuses: Record<string, number> = {};
  let bytes = 0;
  let isOver = false;

  const once = () =>
    new Promise<void>((done) => {
      const { method, path, body, headers } = attack.next();
      const count = (status: number) => {
        statuses[status] = (statuses[status] ?? 0) + 1;
        done();
      };
      const sent = request(
        {
          host: "127.0.0.1",
          port,
          method,
          path,
          agent,
          headers: {
            authorization: `Bearer ${key}`,
            ...headers,
            ...(body && { "content-type": "application/json", "content-length": body.length }),
          },
        },
        (response) => {
          response.on("data", (chunk: Buffer) => {
            bytes += chunk.length;
          });
          response.on("end", () => count(response.statusCode ?? 0));
          response.on("error", () => count(0));
        },
      );
      sent.on("error", () => count(0));
      sent.end(body);
    });

  process.on("SIGTERM", () => {
    isOver = true;
    process.stdout.write(`${JSON.stringify({ statuses, bytes } satisfies AttackReport)}\n`, () =>
      process.exit(0),
    );
  });
  process.stdout.write("ready\n");
  await Promise.all(
    Array.from({ length: attack.connections }, async () => {
      while (!isOver) await once();
    }),
  );
}
