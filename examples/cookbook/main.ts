/**
 * Runs every program of the cookbook on its small inputs, and prints the results.
 *
 *     deno run -A examples/cookbook/main.ts
 *     bun examples/cookbook/main.ts
 *
 * @module
 */
import { PROGRAMS } from "./inputs.ts";

for (const [name, make] of Object.entries(PROGRAMS)) {
  console.log(`${name}:`);
  for (const result of make(false)()) console.log(result);
}
