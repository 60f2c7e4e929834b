// Which metrics exist?

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { cosine } from "./cosine.ts";
import { dotProduct } from "./dot-product.ts";
import { euclidean } from "./euclidean.ts";
import type { Metric } from "./metric.ts";

/** All metrics, by the name that the API uses. A new one is a file next to this one and a line here. */
export const metrics: Readonly<Record<MetricName, Metric>> = { cosine, dot_product: dotProduct, euclidean };
