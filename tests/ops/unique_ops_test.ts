/** Every op of the op table is reachable: as a method, or through the function named here. */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Tensor } from "../../mod.ts";
import { TABLE } from "../../src/table/table.ts";
import { EXPR_FUNCTIONS } from "../../src/table/user_expr.ts";

/** Ops without a method of their own name, and the function that runs them. */
const ELSEWHERE: Record<string, string> = {
  copy: "astype, toOwned and every other copy",
  where: "the function where",
  norm1: "norm",
  norm2: "norm",
  normP: "norm",
  normMax: "norm",
  normMin: "norm",
  logSumExp: "logsumexp",
  countNumbers: "nanmean",
  nanSquares: "nanvar",
  ...Object.fromEntries(
    ("lgamma gamma digamma erfc erfinv erfcinv ndtr ndtri i0 i0e i1 i1e sinc logit entr xlogy " +
      "xlog1py zeta").split(" ").map((name) => [name, `special.${name}`]),
  ),
};

test("every row of the op table is a method, or is known to run under another name", () => {
  const methods = Tensor.prototype as unknown as Record<string, unknown>;
  const missing = TABLE.map(({ name }) => name).filter((name) =>
    typeof methods[name] !== "function" && !Object.hasOwn(ELSEWHERE, name)
  );
  assertEquals(missing, []);
  for (const name of Object.keys(ELSEWHERE)) assert(TABLE.some((row) => row.name === name), name);
});

test("ids are the places in the table, as kernel tables and the shim take for granted", () => {
  TABLE.forEach((row, place) => assertEquals(row.id, place, row.name));
});

test("the documentation of defineOp lists the functions of expressions", () => {
  const source = readFileSync(new URL("../../src/tensor/define_op.ts", import.meta.url), "utf8");
  assert(source.includes(`\`${EXPR_FUNCTIONS.join(" ")}\``), EXPR_FUNCTIONS.join(" "));
});

test("the table of differences in the docs is the one that the golden data are made with", () => {
  const read = (path: string): string => readFileSync(new URL(path, import.meta.url), "utf8");
  const page = read("../../docs/differences-from-numpy.md").replace(/\s+/g, " ");
  const differences = JSON.parse(read("../golden/ops/differences.json")) as Record<
    string,
    string
  >[];
  for (const { rowmajor } of differences) {
    assert(page.includes(rowmajor!.replace(/\s+/g, " ").replaceAll("|", "\\|")), rowmajor);
  }
});
