// What does the command line need for a cluster on one machine?

export { DevCluster } from "./dev-cluster.ts";
export { killTest } from "./kill-test.ts";
export { findNatsServer } from "./nats-server.ts";
