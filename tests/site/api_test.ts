/**
 * The pages of the API, made of what `deno doc` says of the entry points: imports, types, headings.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { existsSync } from "node:fs";
import { join, posix } from "node:path";
import { test } from "node:test";
import * as library from "../../mod.ts";
import { readApi, stagePages } from "../../scripts/site.ts";
import { ENTRIES, markdown } from "../../scripts/site/api.ts";
import { API_PAGES } from "../../scripts/site/api_pages.ts";
import { findDeadMarkdownLinks } from "../../scripts/site/pages.ts";
import { readText, root } from "../../scripts/tools.ts";

const api = readApi();
const blocks = [...api].flatMap(([path, text]) =>
  [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, code = ""]) => ({
    path,
    code,
  }))
);

test("pages of the API import what their entry points export", () => {
  const imports = blocks.flatMap(({ path, code }) =>
    [...code.matchAll(/^import \{ (.*?) \} from "(.*?)";$/gm)]
      .map(([, names = "", from]) => ({ path, names: names.split(", "), from }))
  );
  assert(imports.length > 150);
  for (const { path, names, from } of imports) {
    // Those of the runtimes are there.
    if (from?.startsWith("node:")) continue;
    const entry = Object.values(ENTRIES).find((entry) => entry.from === from);
    assert(entry?.values !== undefined, `${path} imports from ${from}`);
    for (const name of names.filter((name) => !name.startsWith("type "))) {
      assert(name in entry.values, `${path} imports ${name} from ${from}`);
    }
  }
  for (
    const { path, code } of blocks.filter(({ code }) => code.includes("import"))
  ) {
    assertMatch(
      code,
      /^import (\{ .* \}|\* as (?:nn|llm|tokenizers|constraints|onnx|optim|session)) from /m,
      path,
    );
  }
});

test("pages of the API show types of programs, a heading for each name, and links to guides", () => {
  for (const { path, code } of blocks) {
    assert(
      !/\bt\.|\b(Guard|GuardRest|NoInfer|Ok|ShapeOf)\b/.test(code),
      `${path}: ${code}`,
    );
  }
  const page = (id: string) => api.get(`api/${id}.md`)!;
  for (
    const [id, text] of [
      [
        "elementwise",
        "x.add(other: TensorOrScalar, options?: BinaryOptions): Tensor",
      ],
      [
        "comparison",
        'x.less(other: TensorOrScalar, options?: BinaryOptions): Tensor<"bool">',
      ],
      ["views", "x.reshape(shape: Shape): Tensor"],
      ["in-place", "x.add_(other: TensorOrScalar): this"],
      ["creation", "zeros(shape: Shape, options?: CreateOptions): Tensor"],
      ["random", "random.key(seed: number | bigint): Key"],
      ["types", "type TensorOrScalar = AnyTensor | Scalar | Complex;"],
    ] as const
  ) assert(page(id).includes(text), `${id}: ${text}`);
  // The tags of comments are lists below the text.
  for (
    const tag of [
      "**`source`**",
      "**Returns**",
      "**Throws** [`FormatError`](errors.md#FormatError)",
    ]
  ) {
    assert(page("llm").includes(`\n- ${tag}: `), tag);
  }
  for (const { id, guides } of API_PAGES) {
    assert(Object.keys(guides).length > 0, id);
    for (const file of Object.values(guides)) {
      assert(page(id).includes(`](../docs/${file})`), id);
    }
  }
  // Every export that programs can call has a heading.
  const headings = new Set(
    [...api.values()].flatMap((text) =>
      [...text.matchAll(/^## `([\w.]+)/gm)].map(([, name]) => name)
    ),
  );
  const missing = Object.values(ENTRIES).flatMap(({ values = {} }) => Object.keys(values))
    .filter((name) =>
      !["random", "io", "fft", "linalg", "special"].includes(name) &&
      !headings.has(name)
    );
  assertEquals(missing, []);
  const methods = Object.getOwnPropertyNames(library.Tensor.prototype)
    .filter((name) => !["constructor", "flags"].includes(name) && !headings.has(`x.${name}`));
  assertEquals(methods, []);
});

test("text is no HTML, and code stays as it is", () => {
  const text = markdown(
    "x < y, and <b>, `Array<T>`, {@link none}",
    { page: API_PAGES[0]! },
    () => undefined,
  );
  assertEquals(text, "x &lt; y, and &lt;b>, `Array<T>`, `none`");
});

test("pages show no syntax of tests, and their links to pages and the API lead somewhere", () => {
  const pages = stagePages(api);
  assertEquals(
    [...pages].filter(([, text]) => text.includes("@ts-expect-error")).length,
    0,
  );
  // The landing page is none of the others.
  assert(!readText("README.md").includes("@ts-expect-error"));
  const landing = pages.get("index.md")!;
  for (
    const part of [
      "layout: home",
      "benchmarks.svg",
      "code-group",
      "bun build --compile",
    ]
  ) {
    assert(landing.includes(part), part);
  }
  // Links between pages, those of the API among them.
  const exists = (path: string) =>
    existsSync(join(root, path)) || pages.has(posix.join(path, "index.md"));
  assertEquals(findDeadMarkdownLinks(pages, exists), []);
});
