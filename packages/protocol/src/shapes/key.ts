// What does an API key permit, and for which collections?

import Type, { type Static, type TSchema } from "typebox";
import { limits } from "../limits.ts";
import { Fields, Maybe, OneOf } from "./common.ts";
import type { Filter } from "./filter.ts";

/** In ascending order; each role includes the ones before it. */
export const roles = ["read", "write", "admin"] as const;

export type Role = (typeof roles)[number];

const Collections = Type.Array(Type.String({ minLength: 1, maxLength: limits.collectionNameBytesMax + 1 }), {
  minItems: 1,
  maxItems: limits.apiKeyCollectionsMax,
  description:
    "Collections that the key may access: names, or prefixes that end in a star (`logs-*`). Absent: all.",
});

const KeyFilter = Type.Optional(
  Type.Unsafe<Filter | null>({
    description:
      "Only records that match exist for the key, in all its collections, and it writes no others; so it cannot be of role `admin`. Absent: all records.",
    examples: [{ tenant: "acme" }],
  } as unknown as TSchema),
);

export const CreateKey = Fields(
  {
    name: Type.String({ minLength: 1, description: "A label that helps to recognise the key." }),
    role: OneOf(roles, {
      description:
        "`read` reads and searches. `write` also changes records, creates collections and changes indexes. " +
        "`admin` also deletes collections and, if it is not limited to collections, manages keys and reads the audit log.",
    }),
    collections: Maybe(Collections),
    filter: KeyFilter,
    expires_at: Maybe(
      Type.Integer({
        minimum: 1,
        description: "Time in Unix seconds from which the key is rejected. Absent: never.",
      }),
    ),
    weight: Maybe(
      Type.Integer({
        minimum: 1,
        maximum: limits.keyWeightMax,
        default: 1,
        description:
          "The key's share of the server's time while several keys compete: a key of weight 2 gets twice as much as one of weight 1.",
      }),
    ),
  },
  { description: "The permissions of the key. A key with an invalid limit is not created." },
);

const information = {
  key_id: Type.String({ description: "Identifies the key without revealing it." }),
  name: Type.String({ description: "The label that it was given." }),
  role: OneOf(roles, { description: "What it may do." }),
  collections: Type.Union([Type.Array(Type.String()), Type.Null()], {
    description: "null: all collections.",
  }),
  filter: Type.Unsafe<Filter | null>({
    type: ["object", "null"],
    description: "Only records that match exist for the key; null: all.",
  } as unknown as TSchema),
  weight: Type.Integer({ description: "Share of the server's time relative to other keys." }),
  created_at: Type.Integer({ description: "Unix seconds." }),
  expires_at: Type.Union([Type.Integer(), Type.Null()], { description: "Unix seconds; null: never." }),
  last_used_at: Type.Union([Type.Integer(), Type.Null()], {
    description: "Unix seconds, accurate to a minute; null: not used yet.",
  }),
};

export const KeyInformation = Type.Object(information, {
  description: "An API key, without the key itself.",
});

export const KeyCreated = Type.Object(
  {
    ...information,
    key: Type.String({ description: "The key itself. This is the only response that contains it." }),
  },
  { description: "A new API key." },
);

export const KeyList = Type.Object({ keys: Type.Array(KeyInformation) });

export type CreateKey = Static<typeof CreateKey>;
export type KeyInformation = Static<typeof KeyInformation>;
export type KeyCreated = Static<typeof KeyCreated>;
export type KeyList = Static<typeof KeyList>;
