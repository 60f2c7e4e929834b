// What can be done with a data directory that no server has open?

export { checkDirectory } from "@quiver/engine/database/check/directory";
export { repairDirectory } from "@quiver/engine/database/check/repair";
