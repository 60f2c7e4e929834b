// What may the holder of an API key do, and with which collections?

import Type, { type Static } from "typebox";
import { limits } from "../limits.ts";
import { Fields, Maybe, OneOf } from "./common.ts";

/** From the least to the greatest; each role may do all that the ones before it may. */
export const roles = ["read", "write", "admin"] as const;

export type Role = (typeof roles)[number];

const Collections = Type.Array(Type.String({ minLength: 1, maxLength: limits.collectionNameBytesMax + 1 }), {
  minItems: 1,
  maxItems: limits.apiKeyCollectionsMax,
  description:
    "The only collections that the key reaches: names, or prefixes with a star at the end (`logs-*`). Absent: all.",
});

export const CreateKey = Fields(
  {
    name: Type.String({ minLength: 1, description: "What the key is for, to recognise it by." }),
    role: OneOf(roles, {
      description:
        "`read` reads and searches. `write` also changes records, creates collections and changes indexes. " +
        "`admin` also deletes collections and, where it is not limited to collections, manages keys and reads the audit log.",
    }),
    collections: Maybe(Collections),
    expires_at: Maybe(
      Type.Integer({
        minimum: 1,
        description: "Unix seconds from which on the key is refused. Absent: never.",
      }),
    ),
    weight: Maybe(
      Type.Integer({
        minimum: 1,
        maximum: limits.keyWeightMax,
        default: 1,
        description:
          "The key's share of the server's time while several keys keep it busy: one of weight 2 gets twice as much as one of weight 1.",
      }),
    ),
  },
  { description: "What the key may do. A limit that is not understood is refused." },
);

const information = {
  key_id: Type.String({ description: "Names the key without giving it away." }),
  name: Type.String(),
  role: OneOf(roles),
  collections: Type.Union([Type.Array(Type.String()), Type.Null()], {
    description: "null: all collections.",
  }),
  weight: Type.Integer({ description: "Share of the server's time beside other keys." }),
  created_at: Type.Integer({ description: "Unix seconds." }),
  expires_at: Type.Union([Type.Integer(), Type.Null()], { description: "Unix seconds; null: never." }),
  last_used_at: Type.Union([Type.Integer(), Type.Null()], {
    description: "Unix seconds, to a minute; null: not used yet.",
  }),
};

export const KeyInformation = Type.Object(information);

export const KeyCreated = Type.Object({
  ...information,
  key: Type.String({ description: "The key itself. It is shown here and never again." }),
});

export const KeyList = Type.Object({ keys: Type.Array(KeyInformation) });

export type CreateKey = Static<typeof CreateKey>;
export type KeyInformation = Static<typeof KeyInformation>;
export type KeyCreated = Static<typeof KeyCreated>;
export type KeyList = Static<typeof KeyList>;
