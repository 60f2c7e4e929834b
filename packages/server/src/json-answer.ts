// What is an answer before it goes onto the wire?
//
// Every handler gives JSON text or nothing. Text that the engine has already (a stored record) is not parsed and
// written again, and no schema stands between a result and the client.

/** JSON text of a value. */
export type JsonText = string & { readonly __json: unique symbol };

export const json = (value: unknown): JsonText => JSON.stringify(value) as JsonText;

/** Declares that a text is JSON already. */
export const asJson = (text: string): JsonText => text as JsonText;

export const emptyObject = asJson("{}");
