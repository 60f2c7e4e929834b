// What do the login request and the session contain?

import Type, { type Static } from "typebox";
import { Fields } from "./common.ts";

export const CreateSession = Fields(
  {
    username: Type.String({ description: "Always `admin`." }),
    password: Type.String({ description: "The admin key." }),
  },
  { description: "What the token of a session is given for." },
);

export const Session = Type.Object(
  {
    access_token: Type.String({ description: "Bearer token, valid for 24 hours after its last use." }),
    created_at: Type.Integer({ description: "Unix seconds." }),
    expires_at: Type.Integer({ description: "Unix seconds; each use extends it." }),
  },
  { description: "A token that works as a key." },
);

export type CreateSession = Static<typeof CreateSession>;
export type Session = Static<typeof Session>;
