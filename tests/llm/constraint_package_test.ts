/**
 * The optional package of constraints: what happens without it, and which permissions it needs.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { root } from "../../scripts/tools.ts";
import { library } from "../native/support.ts";
import { inDeno, run, temporary } from "../package/support.ts";
import { randomLlama } from "../support/llama.ts";

test("without the package, errors tell how to install it, and choices work", async () => {
  using folder = temporary();
  cpSync(join(root, "src"), join(folder.path, "src"), { recursive: true });
  cpSync(join(root, "mod.ts"), join(folder.path, "mod.ts"));
  const path = join(folder.path, "main.ts");
  writeFileSync(
    path,
    `import { PackageError } from "./mod.ts";
    import { choices, grammar, json, jsonSchema } from "./src/constraints/mod.ts";
    const bytes = ["a", "b"].map((text) => new TextEncoder().encode(text));
    const tokenizer = { size: 2, tokenBytes: (id) => bytes[id] };
    const makers = [
      () => jsonSchema({ const: 1 }, tokenizer),
      () => json(tokenizer),
      () => grammar('root ::= "a"', tokenizer),
      // It is looked for each time.
      () => json(tokenizer),
    ];
    for (const make of makers) {
      await make().catch((error) =>
        console.log(error instanceof PackageError, error.package, error.message)
      );
    }
    const state = await (await choices(["b"], tokenizer)).start({ vocabulary: 2, stopTokens: [] });
    console.log(state.mask()[0]);
    `,
  );
  const args = inDeno
    ? ["run", "-A", "--quiet", "--no-check", "--no-config", "--cached-only", path]
    : ["--no-install", path];
  const { code, stdout, stderr } = await run(process.execPath, args, { cwd: folder.path });
  const lines = stdout.trim().split("\n");
  assertEquals([code, lines.length, lines.at(-1)], [0, 5, "2"], stdout + stderr);
  const ops = [
    ...["constrain text to a JSON schema", "constrain text to JSON", "compile a grammar"],
    "constrain text to JSON",
  ];
  for (const [i, op] of ops.entries()) {
    assertStringIncludes(lines[i]!, `true @mlc-ai/web-xgrammar Cannot ${op}: `);
    assertStringIncludes(lines[i]!, "npm install @mlc-ai/web-xgrammar");
  }
});

(inDeno ? test : test.skip)(
  "an engine with a constraint, with few permissions (Deno)",
  async () => {
    using folder = temporary();
    const sizes = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 64, vocabulary: 320 };
    const model = join(folder.path, "model.gguf");
    writeFileSync(model, randomLlama("q8_0", sizes));
    const program = join(root, "tests", "package", "programs", "constrained.ts");
    const cases: [cpu: string, permissions: string[]][] = [
      ["js", []],
      ["native", [`--allow-ffi=${library}`, "--allow-env"]],
    ];
    for (const [cpu, permissions] of cases) {
      const args = ["run", "--quiet", "--no-prompt", "--no-check", `--allow-read=${model}`];
      const outcome = await run(process.execPath, [...args, ...permissions, program, model], {
        cwd: root,
      });
      assertEquals(outcome, { code: 0, stdout: `${cpu} {"ok":true,"level":3}\n`, stderr: "" });
    }
  },
);
