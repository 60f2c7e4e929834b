import { expect, test } from "vitest";
import { commandFaults } from "./doc-commands.ts";

test("commands are understood under every name, with quotes, comments and variables before them", async () => {
  const script = `
    quiver collections list   # all of them
    npm run -s quiver -- keys create "web shop" --role read \\
      --collection products --expires 90d
    QUIVER_URL=https://db.example.org npm run quiver -- count articles --where "color = 'red'"
    npm start -- --port 9000
    npm run pack -- --out packed && npm install --save-exact
    npx quiverdb --help
    sudo rm -rf / && docker run -p 1:1 quiver --nothing
  `;
  expect(await commandFaults(script)).toEqual([]);
});

test.each([
  ["quiver colections", "unknown command 'colections'"],
  ["npm run quiver -- keys list --rle read", "unknown option '--rle'"],
  ["npm start -- --prt 9000", "unknown option '--prt'"],
  ["quiver get articles", "missing required argument"],
  ["sudo true; quiver collections create a --dimension none", "--dimension"],
])("%s is told: %s", async (script, message) => {
  const faults = await commandFaults(script);
  expect(faults).toHaveLength(1);
  expect(faults[0]).toMatch(message);
});

test("no program is started, and what stands behind a failure is read, too", async () => {
  expect(await commandFaults("false\nls > /dev/null\nquiver nonsense")).toHaveLength(1);
});
