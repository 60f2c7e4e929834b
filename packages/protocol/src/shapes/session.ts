// What do the login request and the session contain?

import Type, { type Static } from "typebox";
import { Fields } from "./common.ts";

export const CreateSession = Fields({ username: Type.String(), password: Type.String() });

export const Session = Type.Object({
  access_token: Type.String({ description: "Bearer token, valid for 24 hours after its last use." }),
  created_at: Type.Integer({ description: "Unix seconds." }),
  expires_at: Type.Integer({ description: "Unix seconds; each use extends it." }),
});

export type CreateSession = Static<typeof CreateSession>;
export type Session = Static<typeof Session>;
