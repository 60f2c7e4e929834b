// What does a checkpoint store of a metadata index?
//
// Copies of the columns of its values and of the bitmaps, so that the index stays in use. A record that is closed is left out when the
// checkpoint is restored: nothing would remove it later.

import { sharedArray } from "../../base/shared-array.ts";
import type { FieldType } from "../../filter/condition.ts";
import type { Field } from "../../metadata/field.ts";
import type { CheckpointAdapter } from "../checkpoint-adapter.ts";
import { BooleanValues } from "./boolean-values.ts";
import { GrowingBitmap } from "./growing-bitmap.ts";
import { type KeywordState, KeywordValues } from "./keyword-values.ts";
import { MetadataIndex, type TypedValues } from "./metadata-index.ts";
import { type NumberState, NumberValues } from "./number-values.ts";

type BitmapState = { readonly firstWord: number; readonly count: number; readonly words: number };

export type MetadataState = {
  readonly end: number;
  readonly held: BitmapState;
  readonly present: BitmapState;
  readonly others: BitmapState;
  readonly retired: readonly number[];
  readonly leftOver: number;
  readonly values:
    | { readonly type: "keyword"; readonly state: KeywordState }
    | { readonly type: "number" | "datetime"; readonly state: NumberState }
    | { readonly type: "boolean"; readonly yes: BitmapState; readonly no: BitmapState };
};

type Saved<State> = { readonly state: State; readonly images: readonly Uint8Array[] };

function saveBitmap(bitmap: GrowingBitmap): Saved<BitmapState> {
  const copy = sharedArray(Uint32Array, bitmap.words.length);
  copy.set(bitmap.words);
  const { firstWord, count } = bitmap;
  return { state: { firstWord, count, words: copy.length }, images: [new Uint8Array(copy.buffer)] };
}

const emptyWords = ({ words }: BitmapState): Uint8Array =>
  new Uint8Array(sharedArray(Uint32Array, words).buffer);

const restoreBitmap = ({ firstWord, count }: BitmapState, image: Uint8Array): GrowingBitmap =>
  GrowingBitmap.restored(new Uint32Array(image.buffer), firstWord, count);

function saveValues(typed: TypedValues): Saved<MetadataState["values"]> {
  if (typed.type === "keyword") {
    const { state, images } = typed.values.save();
    return { state: { type: typed.type, state }, images };
  }
  if (typed.type === "boolean") {
    const [yes, no] = [saveBitmap(typed.values.yes), saveBitmap(typed.values.no)];
    return {
      state: { type: typed.type, yes: yes.state, no: no.state },
      images: [...yes.images, ...no.images],
    };
  }
  const { state, columns } = typed.values.save();
  return { state: { type: typed.type, state }, images: columns.map(({ buffer }) => new Uint8Array(buffer)) };
}

function imagesFor(values: MetadataState["values"]): Uint8Array[] {
  if (values.type === "keyword") return KeywordValues.imagesFor(values.state);
  if (values.type === "boolean") return [emptyWords(values.yes), emptyWords(values.no)];
  const pairs = values.state.buckets.reduce((sum, { length }) => sum + length, 0);
  return [sharedArray(Float64Array, pairs), sharedArray(Uint32Array, pairs)].map(
    ({ buffer }) => new Uint8Array(buffer),
  );
}

function restoreValues(
  values: MetadataState["values"],
  images: readonly Uint8Array[],
  records: number,
): TypedValues {
  if (values.type === "keyword")
    return { type: values.type, values: KeywordValues.restored(values.state, images, records) };
  if (values.type === "boolean") {
    const [yes, no] = [restoreBitmap(values.yes, images[0]), restoreBitmap(values.no, images[1])];
    return { type: values.type, values: new BooleanValues(yes, no) };
  }
  const columns = [new Float64Array(images[0].buffer), new Uint32Array(images[1].buffer)] as const;
  return { type: values.type, values: NumberValues.restored(values.state, columns) };
}

export function metadataCheckpoints(
  field: Field,
  type: FieldType,
): CheckpointAdapter<MetadataIndex, MetadataState> {
  return {
    changes: (index) => index.changes,
    hasNews: () => false,
    isIdle: (index) => index.isIdle,
    async save(index, write) {
      const { changes } = index;
      const [held, present, others] = [index.held, index.present, index.others].map(saveBitmap);
      const values = saveValues(index.typed);
      const state: MetadataState = {
        end: index.end,
        held: held.state,
        present: present.state,
        others: others.state,
        retired: index.retired,
        leftOver: index.leftOver,
        values: values.state,
      };
      const images = [held, present, others, values].flatMap((saved) => saved.images);
      if (await write(state, images)) index.changes -= changes;
    },
    endOf: ({ end }) => end,
    async restored(state, load) {
      const { end, held, present, others, values, retired, leftOver } = state;
      const images = [emptyWords(held), emptyWords(present), emptyWords(others), ...imagesFor(values)];
      await load(images);
      const index = new MetadataIndex(field, type, {
        held: restoreBitmap(held, images[0]),
        present: restoreBitmap(present, images[1]),
        others: restoreBitmap(others, images[2]),
        values: restoreValues(values, images.slice(3), present.count),
        leftOver,
        end,
      });
      for (const ordinal of retired) index.remove(ordinal);
      return index;
    },
  };
}
