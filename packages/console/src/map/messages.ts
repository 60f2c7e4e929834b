// What do the page of a map and its worker tell each other?

export type Layout = "pca" | "umap";

/** The only message to the worker; to stop it, it is terminated. */
export type MapStart = {
  readonly url: string;
  readonly key: string | undefined;
  readonly collection: string;
  readonly dimension: number;
  /** Records that are drawn at most. */
  readonly records: number;
  readonly filter: unknown;
  readonly layout: Layout;
};

export type FieldValue = string | number | boolean | undefined;

export type MapMessage =
  | { readonly type: "progress"; readonly stage: string; readonly share: number }
  /** The records, and the values of their fields: one for each record. */
  | {
      readonly type: "records";
      readonly ids: readonly string[];
      readonly fields: Readonly<Record<string, readonly FieldValue[]>>;
    }
  /** x and y of each record in turn. */
  | { readonly type: "points"; readonly points: Float32Array<ArrayBuffer>; readonly layout: Layout }
  | { readonly type: "done" }
  | { readonly type: "failed"; readonly message: string };
