// Does a connection of a serving thread to the owner last until the thread closes it?

import { once } from "node:events";
import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { completeConfig } from "../src/config.ts";
import { Connections } from "../src/connections.ts";
import { newOwnerSocket } from "../src/threads/forwarding.ts";
import { createOwnerServer } from "../src/transport.ts";

const stallMs = 50;

test.skipIf(process.platform !== "linux")(
  "[O13] it stays open when the time for reading an answer is over after the answer was read (skipped but on Linux)",
  async () => {
    const socket = newOwnerSocket();
    const config = completeConfig({ dataDir: "unused", noAuth: true });
    const server = createOwnerServer(
      config,
      new Connections(),
      (_, response) => {
        // As accounting.ts does for an answer that is not out at once.
        response.setTimeout(stallMs, () => response.socket?.destroy());
        response.end("read");
      },
      socket,
    );
    const agent = new Agent({ keepAlive: true });
    const ask = async (): Promise<ClientRequest> => {
      const asked = request({
        socketPath: socket.path,
        agent,
        headers: { "x-quiver-thread": socket.secret },
      });
      asked.end();
      const [answer] = (await once(asked, "response")) as [IncomingMessage];
      expect(answer.statusCode).toBe(200);
      answer.resume();
      await once(answer, "end");
      return asked;
    };
    try {
      server.listen(socket.path);
      await once(server, "listening");
      expect((await ask()).reusedSocket).toBe(false);
      await sleep(10 * stallMs);
      expect((await ask()).reusedSocket).toBe(true);
    } finally {
      agent.destroy();
      server.close();
    }
  },
);
