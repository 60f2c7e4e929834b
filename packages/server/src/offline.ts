// What can be done with a data directory that no server has open?

export { checkDirectory } from "@quiverdb/engine/database/check/directory";
export { repairDirectory } from "@quiverdb/engine/database/check/repair";
