/**
 * Prints the op table and the dtypes as JSON, for scripts in other languages.
 *
 *     node_modules/.bin/deno run scripts/golden/table_json.ts
 *
 * @module
 */
import { DTYPE, DTYPES } from "../../src/base/dtype.ts";
import { TABLE } from "../../src/table/table.ts";

const dtypes = DTYPES.map((name) => ({ name, kind: DTYPE[name].kind, bytes: DTYPE[name].bytes }));
console.log(JSON.stringify({ dtypes, rows: TABLE }, null, 2));
