// Why can a record not be carried over?

/** A fault of one record; the message goes on behind its name: "has no id". Whoever reads the records knows which one it is (reader.ts). */
export class RecordFault extends Error {
  readonly code: "invalid_vector" | "invalid_json";

  constructor(message: string, code: RecordFault["code"] = "invalid_vector") {
    super(message);
    this.code = code;
  }
}
