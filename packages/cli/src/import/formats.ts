// Which formats can the files of an import have?

export const formats = ["jsonl", "fvecs", "f32"] as const;
export type Format = (typeof formats)[number];
