// What does the least server cost that receives a query and answers with ten results?
//
//   node bench/rest/bare-server.ts
//
// node:http alone: reads the body, parses it, makes 32-bit floats of the vector, and answers with ten results as JSON. No key, no checks, no
// search. `GET /cpu` answers with the processor time of the process, in milliseconds.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const answer = {
  results: Array.from({ length: 10 }, (_, i) => ({
    id: `record-${i}`,
    document_id: null,
    score: 0.9876543210123 - i / 100,
    text: null,
  })),
};

type Body = { readonly query_vector: readonly number[] | { readonly f32: string } };

/** As many bytes as the vector has, so that nothing is optimised away. */
function vectorOf({ query_vector }: Body): Float32Array {
  if ("f32" in query_vector) {
    const bytes = Buffer.from(query_vector.f32, "base64");
    return new Float32Array(Uint8Array.from(bytes).buffer);
  }
  return Float32Array.from(query_vector);
}

const server = createServer((request, response) => {
  if (request.url === "/cpu") {
    const { user, system } = process.cpuUsage();
    response.end(String((user + system) / 1000));
    return;
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const vector = vectorOf(JSON.parse(Buffer.concat(chunks).toString("utf8")) as Body);
    if (vector.length === 0) throw new Error("a query without numbers");
    const text = JSON.stringify(answer);
    response.writeHead(200, {
      "content-type": "application/json; charset=utf-8",
      "content-length": Buffer.byteLength(text),
    });
    response.end(text);
  });
});

server.listen(0, "127.0.0.1", () => {
  console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
