// Unit tests of the translation from errors to responses.

import { type Operation, operations } from "@quiverdb/engine/operations/operations";
import { type ErrorCode, errorKinds, QuiverError } from "@quiverdb/protocol/errors";
import { describe, expect, test } from "vitest";
import { errorAnswer } from "../src/error-answer.ts";

const all = Object.entries(operations) as [string, Operation][];

describe("errors", () => {
  test.each(all)("[E5] %s answers unexpected errors with 500 and only the request id", (_name, route) => {
    const error = new TypeError("cannot read /var/lib/quiver/secret");
    const answer = errorAnswer(error, route, "request-7");
    expect(answer.status).toBe(500);
    expect(answer.serverFault).toBe(true);
    expect(answer.body.error.code).toBe("internal");
    expect(answer.body.error.details).toEqual({ request_id: "request-7" });
    const text = JSON.stringify(answer.body);
    expect(text).not.toContain("secret");
    expect(text).not.toContain("TypeError");
    expect(text).not.toContain(".ts");
  });

  test("[E2] each code has the status of the table, or the one of the route", () => {
    for (const [code, kind] of Object.entries(errorKinds)) {
      if (kind.status === 0) continue;
      const error = new QuiverError(code as ErrorCode, "words");
      expect([code, errorAnswer(error, undefined, "r").status]).toEqual([code, kind.status]);
      for (const [name, route] of all) {
        const status = route.statusOf?.[code as ErrorCode] ?? kind.status;
        expect([name, code, errorAnswer(error, route, "r").status]).toEqual([name, code, status]);
      }
    }
    const missing = new QuiverError("collection_not_found", "words");
    expect(errorAnswer(missing, operations.deleteCollection, "r").status).toBe(400);
    expect(errorAnswer(missing, operations.getCollection, "r").status).toBe(404);
    expect(errorAnswer(new QuiverError("vector_not_found", "w"), operations.getVector, "r").status).toBe(404);
    expect(errorAnswer(new QuiverError("index_not_found", "w"), operations.searchDense, "r").status).toBe(
      400,
    );
  });

  test("[E5] a data directory in an error of the server appears only in the log", () => {
    const error = new QuiverError("storage_failed", "could not write /data/quiver/collections/1/data.mdb");
    const { body, status } = errorAnswer(error, undefined, "r-1", ["/data/quiver"]);
    expect(status).toBe(500);
    expect(body.error.code).toBe("storage_failed");
    expect(JSON.stringify(body)).not.toContain("/data/quiver");
    expect(body.error.details).toEqual({ request_id: "r-1" });
  });

  test("[E5] a failed checksum names its key, and the request id", () => {
    const error = new QuiverError("data_corrupted", "The record failed its checksum.", {
      key: "records/00000007",
    });
    const { body } = errorAnswer(error, undefined, "r-1", ["/data/quiver"]);
    expect(body.error.details).toEqual({ key: "records/00000007", request_id: "r-1" });
  });

  test("[E2] transport errors have a code of the table", () => {
    const codeOf = (code: string) => {
      const { status, body } = errorAnswer(Object.assign(new Error("x"), { code }), undefined, "r");
      return [status, body.error.code];
    };
    expect(codeOf("FST_ERR_BAD_URL")).toEqual([400, "invalid_request"]);
    expect(codeOf("HPE_HEADER_OVERFLOW")).toEqual([431, "headers_too_large"]);
    expect(codeOf("ERR_HTTP_REQUEST_TIMEOUT")).toEqual([408, "request_timeout"]);
    expect(codeOf("HPE_INVALID_METHOD")).toEqual([400, "invalid_request"]);
    expect(codeOf("FST_ERR_CTP_INVALID_MEDIA_TYPE")).toEqual([415, "unsupported_media_type"]);
    expect(codeOf("EIO")).toEqual([500, "internal"]);
    for (const thrown of [undefined, null, "text", 7]) {
      expect(errorAnswer(thrown, undefined, "r").body.error.code).toBe("internal");
    }
  });

  test("[E5] a full queue or a stopping server is not logged as a fault", () => {
    for (const code of ["overloaded", "shutting_down", "not_ready"] as const) {
      expect(errorAnswer(new QuiverError(code, "w"), undefined, "r").serverFault).toBe(false);
    }
    expect(errorAnswer(new QuiverError("storage_full", "w"), undefined, "r").serverFault).toBe(true);
  });
});
