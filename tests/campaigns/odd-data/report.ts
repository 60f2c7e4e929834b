export function writeTable(_c: unknown, _v: unknown) {}
