// What do the endpoints take and answer, as types with a member for each of them? The client's declarations have them written out.

import type { AnswerOf, ParamsOf } from "@quiverdb/client/endpoints";
import type { RouteName } from "@quiverdb/protocol/routes";

export type Answers = { [R in RouteName]: AnswerOf<R> };
export type Params = { [R in RouteName]: ParamsOf<R> };
