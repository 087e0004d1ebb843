/**
 * The pages of the API reference, as Markdown, from the output of `deno doc --json`: grouped by
 * task, with signatures for readers and examples that can be copied.
 *
 * @module
 */
import * as library from "../../mod.ts";
import * as programs from "../../src/compile/mod.ts";
import * as derivatives from "../../src/grad/mod.ts";
import * as hub from "../../src/hub/mod.ts";
import * as distributed from "../../src/distributed/mod.ts";
import * as images from "../../src/images/mod.ts";
import * as models from "../../src/models/mod.ts";
import * as profiles from "../../src/profile/mod.ts";
import * as serving from "../../src/serve/mod.ts";
import * as training from "../../src/train/mod.ts";
import { readText } from "../tools.ts";
import { API_PAGES, type ApiPage } from "./api_pages.ts";
import {
  type DocFunction,
  type DocParam,
  type DocType,
  type DocTypeParam,
  renderField,
  renderSignature,
  renderType,
  WIDTH,
} from "./signature.ts";

const PACKAGE = "@rowmajor/tensor";

/** An entry point, and how programs reach what it exports. */
interface EntryPoint {
  /** The specifier that imports it. */
  readonly from: string;
  /** The namespace that has all its exports: of mod.ts, or of an entry point of its own. */
  readonly namespace?: string;
  /** Its values: what else it exports are types. */
  readonly values?: object;
}

/** The entry points, by their paths. */
export const ENTRIES: Readonly<Record<string, EntryPoint>> = {
  "mod.ts": { from: PACKAGE, values: library },
  "src/compile/mod.ts": { from: `${PACKAGE}/compile`, values: programs },
  "src/api/fft.ts": { from: PACKAGE, namespace: "fft" },
  "src/constraints/mod.ts": { from: `${PACKAGE}/constraints`, namespace: "constraints" },
  "src/grad/mod.ts": { from: `${PACKAGE}/grad`, values: derivatives },
  "src/optim/mod.ts": { from: `${PACKAGE}/optim`, namespace: "optim" },
  "src/train/mod.ts": { from: `${PACKAGE}/train`, values: training },
  "src/hub/mod.ts": { from: `${PACKAGE}/hub`, values: hub },
  "src/images/mod.ts": { from: `${PACKAGE}/images`, values: images },
  "src/distributed/mod.ts": { from: `${PACKAGE}/distributed`, values: distributed },
  "src/io/mod.ts": { from: PACKAGE, namespace: "io" },
  "src/llm/mod.ts": { from: `${PACKAGE}/llm`, namespace: "llm" },
  "src/onnx/mod.ts": { from: `${PACKAGE}/onnx`, namespace: "onnx" },
  "src/onnx/session.ts": { from: `${PACKAGE}/onnx/session`, namespace: "session" },
  "src/models/mod.ts": { from: `${PACKAGE}/models`, values: models },
  "src/nn/mod.ts": { from: `${PACKAGE}/nn`, namespace: "nn" },
  "src/profile/mod.ts": { from: `${PACKAGE}/profile`, values: profiles },
  "src/serve/mod.ts": { from: `${PACKAGE}/serve`, values: serving },
  "src/api/linalg.ts": { from: PACKAGE, namespace: "linalg" },
  "src/api/random.ts": { from: PACKAGE, namespace: "random" },
  "src/api/special.ts": { from: PACKAGE, namespace: "special" },
  "src/tokenizers/mod.ts": { from: `${PACKAGE}/tokenizers`, namespace: "tokenizers" },
  "src/types/mod.ts": { from: PACKAGE, namespace: "types" },
};

/** A tag of a documentation comment, such as `@param`. */
interface Tag {
  readonly kind: string;
  readonly doc?: string;
  /** The name of a parameter. */
  readonly name?: string;
  /** The class of an error. */
  readonly tsType?: { readonly repr: string };
}

interface JsDoc {
  readonly doc?: string;
  readonly tags?: readonly Tag[];
}

interface Location {
  readonly filename: string;
  readonly line: number;
}

/** A member of a class or interface. */
interface Member {
  readonly name: string;
  readonly jsDoc?: JsDoc;
  readonly location: Location;
  readonly kind?: string;
  readonly isStatic?: boolean;
  readonly optional?: boolean;
  readonly tsType?: DocType;
  readonly functionDef?: DocFunction & { readonly hasBody?: boolean };
  readonly params?: readonly DocParam[];
  readonly returnType?: DocType;
  readonly typeParams?: readonly DocTypeParam[];
  readonly accessibility?: string;
}

interface Declaration {
  readonly kind: string;
  readonly jsDoc?: JsDoc;
  readonly location: Location;
  // Its form depends on the kind.
  // deno-lint-ignore no-explicit-any
  readonly def: any;
}

/** The output of `deno doc --json`. */
export interface DocJson {
  readonly nodes: Readonly<
    Record<string, {
      readonly symbols: readonly {
        readonly name: string;
        readonly declarations: readonly Declaration[];
      }[];
    }>
  >;
}

/** Something with a heading of its own. */
interface Entry {
  /** The name without what stands before it. */
  readonly name: string;
  /** As programs write it: `x.add`, `zeros`, `random.key`. */
  readonly call: string;
  readonly anchor: string;
  readonly page: ApiPage;
  /** The text of the code block below the heading. */
  readonly code: string;
  readonly docs: readonly JsDoc[];
}

const isInternal = ({ doc = "", tags = [] }: JsDoc = {}): boolean =>
  doc.includes("@internal") || doc.includes("@ignore") ||
  tags.some(({ kind }) => kind === "internal" || kind === "ignore");

/** The sections of tensor.ts: the line where each begins, in order. */
function sections(): [line: number, name: string][] {
  return readText("src/tensor/tensor.ts").split("\n").flatMap((line, i) => {
    const name = /^ {2}\/\/ -{4} (.*?) -+$/.exec(line)?.[1];
    return name === undefined ? [] : [[i + 1, name] as [number, string]];
  });
}

function pageOfFile(name: string, filename: string): ApiPage {
  const file = filename.replace(/^.*\/src\//, "");
  // The longest path that fits is the most exact one.
  const fits = (path: string) => file === path || file.startsWith(`${path}/`);
  const best = (page: ApiPage) =>
    Math.max(-1, ...(page.files ?? []).filter(fits).map((path) => path.length));
  const named = API_PAGES.find(({ names }) => names?.includes(name));
  const [page] = [...API_PAGES].sort((a, b) => best(b) - best(a));
  if (named === undefined && best(page!) < 0) {
    throw new Error(`No page of the API has a place for ${name} of src/${file}: api_pages.ts`);
  }
  return named ?? page!;
}

function pageOfMember(name: string, line: number, starts: readonly [number, string][]): ApiPage {
  const section = starts.findLast(([start]) => start <= line)?.[1] ?? starts[0]![1];
  const page = API_PAGES.find(({ names }) => names?.includes(name)) ??
    API_PAGES.find((page) => page.sections?.includes(section));
  if (page === undefined) {
    throw new Error(`No page of the API has a place for section "${section}": api_pages.ts`);
  }
  return page;
}

/** Without the signatures of implementations, which callers do not see. */
function visible<T>(list: readonly T[], hasBody: (one: T) => boolean | undefined): readonly T[] {
  const overloads = list.filter((one) => !hasBody(one));
  return list.length > 1 && overloads.length > 0 ? overloads : list;
}

function methodName(name: string): string {
  return name.startsWith("[") ? name : `.${name}`;
}

/** The entries of the class Tensor: each is a member with all its signatures. */
function tensorEntries(def: Record<string, readonly Member[]>): Entry[] {
  const starts = sections();
  const fields = (def.properties ?? []).map((member) => [member] as const);
  const byName = Map.groupBy(def.methods ?? [], ({ name }) => name);
  return [...fields, ...byName.values()].flatMap((all) => {
    const members = visible(all, ({ functionDef }) => functionDef?.hasBody);
    const { name, location, kind, tsType } = members[0]!;
    // Runtimes and notebooks call these.
    if (name.startsWith("[Symbol.for(")) return [];
    if (members.some(({ jsDoc }) => isInternal(jsDoc))) return [];
    const field = kind === undefined || kind === "getter";
    const call = `x${methodName(name)}`;
    const lines = members.map(({ functionDef }) =>
      field
        ? renderField(call, tsType ?? functionDef!.returnType, false)
        : renderSignature(call, functionDef!)
    );
    return [{
      name,
      call: field ? call : `${call}()`,
      anchor: `x-${name.replace(/\W+/g, "-")}`,
      page: pageOfMember(name, location.line, starts),
      code: overloads(lines, members.map(({ jsDoc = {} }) => jsDoc)),
      docs: members.map(({ jsDoc = {} }) => jsDoc),
    }];
  });
}

/** The first paragraph of a documentation as comments that fit beside the sidebars. */
function comment(jsDoc: JsDoc | undefined): string[] {
  const [first] = plain(jsDoc?.doc ?? "").split("\n\n");
  const text = first!.replace(/\s+/g, " ").trim();
  return [...text.matchAll(new RegExp(`(\\S.{0,${WIDTH - 8}})(?:\\s+|$)`, "g"))]
    .map(([, line]) => `// ${line}`);
}

/** Signatures in one block; what is said of the further ones stands above them. */
function overloads(lines: readonly string[], docs: readonly JsDoc[]): string {
  return lines.flatMap((line, i) => [...i === 0 ? [] : ["", ...comment(docs[i])], line]).join("\n");
}

/** The members of a class or interface as lines of its body. */
function body(def: Record<string, readonly Member[]>, params: readonly DocTypeParam[]): string[] {
  const seen = new Set<string>();
  const members = (list: readonly Member[] = []) =>
    list.filter(({ jsDoc, accessibility }) => !isInternal(jsDoc) && accessibility !== "private");
  return [
    ...members(def.properties).flatMap((one) => [
      ...comment(one.jsDoc),
      `${one.isStatic ? "static " : ""}${
        renderField(one.name, one.tsType, one.optional ?? false, params)
      };`,
    ]),
    ...members(def.methods).flatMap((one) => {
      const signature = one.functionDef ?? (one as DocFunction);
      if (one.kind === "setter" || (one.functionDef?.hasBody && seen.has(one.name))) return [];
      seen.add(one.name);
      const head = one.isStatic ? `static ${one.name}` : one.name;
      return [
        ...comment(one.jsDoc),
        one.kind === "getter"
          ? `${renderField(head, signature.returnType, false, params)};`
          : `${renderSignature(head, signature)};`,
      ];
    }),
    ...members(def.callSignatures as never).flatMap((one) => [
      ...comment(one.jsDoc),
      `${renderSignature("", { ...one, returnType: one.tsType } as DocFunction)};`,
    ]),
  ];
}

function codeOfType(name: string, { kind, def }: Declaration): string {
  if (kind === "typeAlias") return `type ${name} = ${renderType(def.tsType, new Map())};`;
  const parents = kind === "class"
    ? def.extends ? [def.extends] : []
    : (def.extends ?? []).map((type: DocType) => renderType(type));
  const head = `${kind} ${name}${parents.length > 0 ? ` extends ${parents.join(", ")}` : ""}`;
  const lines = body(def, def.typeParams ?? []).join("\n").replace(/^(?=.)/gm, "  ");
  return lines === "" ? `${head} {}` : `${head} {\n${lines}\n}`;
}

/** The import of names, or of the namespace of an entry point of its own. */
function importOf(names: string, { from, namespace }: EntryPoint): string {
  return namespace === undefined || from === PACKAGE
    ? `import { ${names} } from "${from}";`
    : `import * as ${namespace} from "${from}";`;
}

/** The entry of an export of an entry point. */
function entryOf(
  name: string,
  entry: EntryPoint,
  all: readonly Declaration[],
): Entry {
  const { namespace, values = {} } = entry;
  const declarations = visible(all, ({ def }) => def?.hasBody);
  const { kind, location, def } = declarations[0]!;
  const call = namespace === undefined ? name : `${namespace}.${name}`;
  const callable = kind === "function";
  // Some classes are exported as types.
  const isValue = namespace === undefined ? name in values : callable;
  const importLine = `${importOf(`${isValue ? "" : "type "}${namespace ?? name}`, entry)}\n\n`;
  const code = callable
    ? overloads(
      declarations.map((one) => renderSignature(call, one.def)),
      declarations.map(({ jsDoc = {} }) => jsDoc),
    )
    : kind === "variable"
    ? `const ${renderField(name, def.tsType, false)};`
    : codeOfType(name, declarations[0]!);
  return {
    name,
    call: callable ? `${call}()` : call,
    anchor: namespace === undefined ? name : `${namespace}-${name}`,
    page: pageOfFile(name, location.filename),
    code: importLine + code,
    docs: declarations.map(({ jsDoc = {} }) => jsDoc),
  };
}

function entriesOf(json: DocJson): Entry[] {
  return Object.entries(json.nodes).flatMap(([url, { symbols }]) => {
    const file = Object.keys(ENTRIES).findLast((path) => url.endsWith(`/${path}`));
    const entryPoint = ENTRIES[file!]!;
    // The type functions are for the compiler; only those that signatures name are here, and layers.
    const shown = symbols.filter(({ name, declarations: [first] }) =>
      entryPoint.namespace === "types"
        ? NAMED.has(name)
        : name.endsWith("Layer") || !forCompiler(first!)
    );
    return shown.flatMap(({ name, declarations }) => {
      const [first] = declarations;
      if (first!.kind === "namespace" || isInternal(first!.jsDoc)) return [];
      const own = entryOf(name, entryPoint, declarations);
      const isClass = name === "Tensor" && first!.kind === "class";
      return isClass ? [tensorEntry(own), ...tensorEntries(first!.def)] : [own];
    });
  });
}

/** Whether a type only gives the compiler the types of results. */
function forCompiler({ kind, def }: Declaration): boolean {
  const text = JSON.stringify(def ?? {});
  return kind === "typeAlias"
    ? /"kind":"(conditional|mapped)"|"typeName":"t\.Ok"/.test(text)
    : kind === "interface" && /"callSignatures":\[\{/.test(text) && /"typeName":"t\./.test(text);
}

/** Types of src/types that signatures for readers name. */
const NAMED: ReadonlySet<string> = new Set([
  "Access",
  "AxisArg",
  "Device",
  "Nested",
  "SliceArg",
  "TensorData",
]);

/** The class itself, whose members are entries of their own. */
function tensorEntry(entry: Entry): Entry {
  return {
    ...entry,
    code: `import { Tensor } from "${PACKAGE}";\n\nclass Tensor<D, S, V, A> { … }`,
  };
}

// ---- text --------------------------------------------------------------------------------------

/** Text without links. */
function plain(doc: string): string {
  return doc.replace(/\{@link\s+(\S+?)\s*\}/g, (_, name: string) => `\`${name}\``);
}

/** Documentation as Markdown on a page of the API. */
export function markdown(
  doc: string,
  from: Pick<Entry, "page">,
  find: (name: string) => Entry | undefined,
): string {
  return doc
    .replace(/`[^`]*`|\{@link\s+(\S+?)\s*\}|</g, (all, name?: string) => {
      if (all === "<") return "&lt;";
      if (name === undefined) return all;
      const to = find(name);
      return to === undefined || to === from
        ? `\`${name}\``
        : `[\`${name}\`](${linkTo(to, from.page)})`;
    })
    .replace(/\bdocs\/(\w[\w-]*)\.md/g, "[$1](../docs/$1.md)");
}

/** The parameters, the result and the errors of a documentation comment, as a list. */
function details(tags: readonly Tag[]): string {
  return tags.flatMap(({ kind, name, doc = "", tsType }) => {
    const text = doc.replace(/\s+/g, " ").trim();
    if (kind === "param") return [`- **\`${name}\`**: ${text}`];
    if (kind === "return") return [`- **Returns**: ${text}`];
    const error = tsType === undefined ? "" : ` {@link ${tsType.repr}}`;
    return kind === "throws" ? [`- **Throws**${error}: ${text}`] : [];
  }).join("\n");
}

function linkTo({ page, anchor }: Entry, from?: ApiPage): string {
  return `${page === from ? "" : `${page.id}.md`}#${anchor}`;
}

function summary(entry: Entry, find: (name: string) => Entry | undefined): string {
  const text = (entry.docs[0]?.doc ?? "").split("\n\n")[0]!.replace(/\s+/g, " ").trim();
  const sentence = /^.*?[.:](?=\s+[A-Z]|$)/.exec(text)?.[0] ?? text;
  return markdown(sentence, entry, find).replaceAll("|", "\\|");
}

/** An example with the imports that documentation comments omit. */
function example(text: string): string {
  return text.replace(/```ts\n([\s\S]*?)```/g, (_, code: string) => {
    const uses = (name: string) =>
      new RegExp(`(?<![.\\w"])${name}\\b`).test(code) &&
      !new RegExp(`\\b(?:const|let|function) ${name}\\b`).test(code);
    const lines = /^import\b/m.test(code) ? [] : Object.values(ENTRIES).flatMap((entry) => {
      const own = entry.from !== PACKAGE && entry.namespace !== undefined ? [entry.namespace] : [];
      const names = [...Object.keys(entry.values ?? {}), ...own].sort().filter(uses);
      return names.length === 0 ? [] : [`${importOf(names.join(", "), entry)}\n`];
    });
    const head = lines.length > 0 ? `${lines.join("")}\n` : "";
    return "```ts\n" + head + code.trim() + "\n```";
  });
}

/** Markdown of all pages by path, `api/index.md` among them. */
export function makeApi(json: DocJson): Map<string, string> {
  const entries = entriesOf(json);
  const finder = (from: Entry) => (name: string): Entry | undefined => {
    const last = name.split(".").at(-1)!;
    const found = entries.filter((entry) => entry.name === last);
    // Names of the same page first: members of Tensor and of namespaces have functions' names.
    return found.find(({ page }) => page === from.page) ?? found[0];
  };
  const pages = new Map<string, string>();
  const overview: string[] = [];
  for (const page of API_PAGES) {
    const here = entries.filter((entry) => entry.page === page);
    const isType = ({ code }: Entry) => /^import \{ type/.test(code);
    const mine = [...here.filter((one) => !isType(one)), ...here.filter(isType)];
    if (mine.length === 0) throw new Error(`The page ${page.id} of the API is empty: api_pages.ts`);
    const guides = Object.entries(page.guides).map(([title, file]) =>
      `[${title}](../docs/${file})`
    );
    const rows = mine.map((entry) =>
      `| [\`${entry.call}\`](#${entry.anchor}) | ${summary(entry, finder(entry))} |`
    );
    const texts = mine.map((entry) => {
      const find = finder(entry);
      // The first paragraphs of further signatures stand in the code.
      const docs = entry.docs.map(({ doc = "" }, i) => {
        const text = i === 0 ? doc : doc.split("\n\n").slice(1).join("\n\n");
        return markdown(text.trim(), entry, find);
      });
      const lists = entry.docs.map(({ tags = [] }) => markdown(details(tags), entry, find));
      const examples = entry.docs.flatMap(({ tags = [] }) =>
        tags.filter(({ kind }) => kind === "example").map(({ doc = "" }) => example(doc))
      );
      return [
        `## \`${entry.call}\` {#${entry.anchor}}`,
        "```ts\n" + entry.code + "\n```",
        ...new Set([...docs, ...lists].filter((doc) => doc !== "")),
        ...examples,
      ].join("\n\n");
    });
    pages.set(
      `api/${page.id}.md`,
      [
        `# ${page.title}`,
        `${page.about} Read also: ${guides.join(", ")}. [All of the API](index.md).`,
        `| Name | Summary |\n| --- | --- |\n${rows.join("\n")}`,
        ...texts,
      ].join("\n\n") + "\n",
    );
    overview.push(
      `## [${page.title}](${page.id}.md)`,
      page.about,
      mine.map((entry) => `[\`${entry.name}\`](${linkTo(entry)})`).join(" · "),
    );
  }
  const head = [
    "# API",
    "The package has everything but [neural networks](nn.md) and downloads, [programs](programs.md), " +
    "[profiles](profiling.md) and rules for linters, which have entry points of their own, so that " +
    "its import stays fast. Signatures are written for readers: `Tensor` stands for " +
    "a tensor whose dtype and shape the compiler works out " +
    "([shapes in types](../docs/shapes-in-types.md)). `x` is a tensor.",
    `\`\`\`ts\nimport { io, random, tensor } from "${PACKAGE}";\n\n` +
    "const x = tensor([[1, 2], [3, 4]]);\nx.sum(0).toArray(); // => [4, 6]\n```",
  ];
  pages.set("api/index.md", [...head, ...overview].join("\n\n") + "\n");
  return pages;
}
