// What does the command line take of the shapes of requests?
//
// Plain values. In the published package they are written out as JSON (tools/pack/build.ts), because the library of the schemas comes with the
// engine, and the command line works without it.

/** The roles of keys. */
export { roles } from "@quiverdb/protocol/shapes/key";
/** The schema of a record. */
export { VectorInput } from "@quiverdb/protocol/shapes/vector";
