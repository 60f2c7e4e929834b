// How does a client log in once and stay logged in?

import Type, { type Static } from "typebox";
import { Fields } from "./common.ts";

export const CreateSession = Fields({ username: Type.String(), password: Type.String() });

export const Session = Type.Object({
  access_token: Type.String({ description: "Works as a bearer key for 24 hours from its last use." }),
  created_at: Type.Integer({ description: "Unix seconds." }),
  expires_at: Type.Integer({ description: "Unix seconds; moves on with every use." }),
});

export type CreateSession = Static<typeof CreateSession>;
export type Session = Static<typeof Session>;
