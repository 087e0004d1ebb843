/**
 * Calls in the prose and the tables of pages, such as `x.matmul(y)`: each has to compile with the names
 * of the library and those of inline_scope.ts.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import * as rowmajor from "../../mod.ts";
import * as compiling from "../../src/compile/mod.ts";
import * as distributed from "../../src/distributed/mod.ts";
import * as models from "../../src/models/mod.ts";
import * as images from "../../src/images/mod.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as onnxes from "../../src/onnx/mod.ts";
import * as derivatives from "../../src/grad/mod.ts";
import * as training from "../../src/train/mod.ts";
import * as profiling from "../../src/profile/mod.ts";
import * as serving from "../../src/serve/mod.ts";
import type { Block } from "./blocks.ts";

/** The entry points whose exports pages use without a prefix. */
const ENTRIES: readonly (readonly [entry: string, exports: object])[] = [
  ["", rowmajor],
  ["/compile", compiling],
  ["/grad", derivatives],
  ["/train", training],
  ["/profile", profiling],
  ["/images", images],
  ["/models", models],
  ["/serve", serving],
  ["/distributed", distributed],
];
/** The entry points that pages import as a namespace. */
const SPACES: readonly string[] = ["nn", "llm", "tokenizers", "constraints", "onnx", "optim"];
/** What has the functions that pages name without a receiver. */
const RECEIVERS: Readonly<Record<string, object>> = {
  x: rowmajor.Tensor.prototype,
  group: distributed.World.prototype,
  session: llm.Session.prototype,
  embedder: models.Embedder.prototype,
  chat: models.Chat.prototype,
  detector: onnxes.Model.prototype,
  opened: nn.Weights.prototype,
  special: rowmajor.special,
  predict: { explain: 0 },
  graph: { run: 0 },
};
/** Names that stand for something else on a page. */
const OTHER_NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "docs/models.md": { w: "opened as w" },
  "docs/embeddings.md": { a: "text as a", b: "text as b" },
  "docs/from-transformers-js.md": {
    weights: "path as weights",
    ids: "x as ids",
    lengths: "y as lengths",
  },
  "docs/sorting.md": { k: "kth as k", q: "value as q" },
};
/** Functions that pages make. */
const MADE: ReadonlySet<string> = new Set(["f", "layer", "predict"]);

/** A call in a page. */
export interface Span {
  readonly file: string;
  readonly line: number;
  readonly code: string;
}

/** Pages whose calls are not compiled by this, and why. */
export const OTHER_PAGES: Readonly<Record<string, string>> = {
  "docs/architecture.md": "calls within src",
  "docs/add-an-op.md": "calls within src; tests/ops/add_an_op_test.ts takes its steps",
  "docs/from-numpy.md": "peers_test.ts runs both sides of its tables",
  "docs/from-pytorch.md": "peers_test.ts runs both sides of its tables",
  "docs/from-tfjs.md": "peers_test.ts runs both sides of its tables",
};

/** Code of pages that is no call of the library, and what it is. */
export const OTHERS: Readonly<Record<string, string>> = {
  "Target requires 2 element(s) but source may have fewer": "a message of the compiler",
  'safetensors.torch.save_file(model.state_dict(), "resnet18.safetensors")': "Python",
  'convert("L")': "Pillow",
  "Math.sqrt(x)": "an error, of the compiler too",
  "Math.log(x)": "an error of the compiler",
  '(name) => name.endsWith("q_proj.weight") ? 0 : undefined': "an option of the example after it",
};

/** The calls outside of the blocks of a page. */
export function readSpans(file: string, text: string): Span[] {
  let isBlock = false;
  return text.split("\n").flatMap((line, n) => {
    if (/^\s*```/.test(line)) isBlock = !isBlock;
    if (isBlock) return [];
    // The first column of such a page has code of another library.
    const own = /\bfrom-/.test(file) && line.startsWith("|") ? line.split("|")[2]! : line;
    return [...own.matchAll(/`([^`]+)`/g)].map(([, code]) => code!.replaceAll("\\|", "|"))
      .filter((code) => /[\w\]]\(.*\)/.test(code) && !Object.hasOwn(OTHERS, code))
      .map((code) => ({ file, line: n + 1, code }));
  });
}

const scopeUrl = new URL("inline_scope.ts", import.meta.url);
const declared = [...readFileSync(scopeUrl, "utf8").matchAll(/^export declare const ([^;]*);/gm)]
  .flatMap(([, names]) => [...names!.matchAll(/(?:^|,\s+)(\w+):/g)].map(([, name]) => name!));

/**
 * The body of a function with a call: its receiver is added if it is missing, dots stand for arguments,
 * and `name()` for the function of that name, whose arguments are in the text.
 */
function bodyOf(code: string, exported: ReadonlySet<string>): string {
  const call = code.replace("(...)", "()").replaceAll("[…]", "[1]").replace("=> …", "=> x")
    .replaceAll("…", "[1]").replace(/\b\w+ = (?=[\d.]+\))/g, "");
  if (/^(?:await using|const)\b/.test(call)) return `{ ${call}; }`;
  if (/^(?:for|if)\b/.test(call)) return `{ ${call} {} }`;
  const [, start = "", first = ""] = /^(await )?(\w*)/.exec(call)!;
  const isOwn = exported.has(first) || MADE.has(first) || Object.hasOwn(globalThis, first);
  const receiver = isOwn
    ? undefined
    : Object.keys(RECEIVERS).find((name) =>
      call.slice(start.length + first.length).startsWith("(") && first in RECEIVERS[name]!
    );
  const whole = receiver === undefined ? call : `${start}${receiver}.${call.slice(start.length)}`;
  return `(${/^[\w.]+\(\)$/.test(code) ? whole.slice(0, -2) : whole})`;
}

/** A block with the calls of a page on their lines. */
export function blockOfSpans(spans: readonly Span[]): Block {
  const exported = new Set<string>(SPACES);
  const imports = SPACES.map((name) => `import * as ${name} from "@rowmajor/tensor/${name}";`);
  const add = (names: readonly string[], url: string): void => {
    const more = names.filter((name) => !exported.has(name) && name !== "default");
    imports.push(`import { ${more.join(", ")} } from ${JSON.stringify(url)};`);
  };
  for (const [entry, exports] of ENTRIES) {
    add(Object.keys(exports), `@rowmajor/tensor${entry}`);
    for (const name of Object.keys(exports)) exported.add(name);
  }
  const { file } = spans[0]!;
  add(declared.map((name) => OTHER_NAMES[file]?.[name] ?? name), scopeUrl.href);
  const lines = [imports.join(" ")];
  for (const { line, code } of spans) {
    while (lines.length < line) lines.push("");
    lines[line - 1] += ` async () => ${bodyOf(code, exported)};`;
  }
  return { file, line: 0, lines, language: "ts", mode: "check", reason: "" };
}
