// Is this version of Node.js new enough?
//
// Imported before anything that an older one could not even load.

/** The oldest version that the tests run with: older ones lack the exact numbers of JSON texts, and CRC-32. */
const majorMin = 24;

const { node } = process.versions;
if (Number.parseInt(node, 10) < majorMin) {
  throw new Error(
    `@quiverdb/database needs Node.js ${majorMin} or newer; this is ${node}. In a project, "npm install node@${majorMin}" gives npx one: npx node FILE. With an older one, run the server elsewhere and use @quiverdb/client.`,
  );
}
