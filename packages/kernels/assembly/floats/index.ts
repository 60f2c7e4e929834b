// Which functions does the module that reads numbers export?
//
// Its memory belongs to one thread, unlike that of the other modules: copying a text into a shared memory takes three times as long.

export { parseFloats } from "./parse-floats";
