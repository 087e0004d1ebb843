/**
 * Draws a directed graph of boxes as SVG: in layers from the top down, without overlaps, and the
 * same for the same graph.
 *
 * Knows nothing of programs.
 *
 * @module
 */

/** A box of a diagram. */
export interface DiagramBox {
  /** Its text; the first line is its title. */
  readonly lines: readonly string[];
  readonly kind: "input" | "op" | "group" | "output";
}

/** A graph of boxes: edges go from an earlier box to a later one, by their places. */
export interface Diagram {
  readonly title: string;
  readonly boxes: readonly DiagramBox[];
  readonly edges: readonly (readonly [from: number, to: number])[];
}

// In pixels. CHARACTER is more than the width of a character in the font of the boxes.
const CHARACTER = 7.3;
const LINE = 16;
const PADDING = 10;
const GAP_X = 22;
const GAP_Y = 34;
const MARGIN = 16;
/** The width that an edge takes up in a layer that it crosses. */
const LANE = 6;
/** Longer lines are cut. */
const MOST_CHARACTERS = 64;
/** How often orders and places are improved from the top to the bottom and back. */
const SWEEPS = 8;

/** A box, or an edge that crosses a layer. */
interface Slot {
  /** The box; undefined for an edge. */
  readonly box: number | undefined;
  readonly layer: number;
  readonly width: number;
  readonly height: number;
  readonly up: Slot[];
  readonly down: Slot[];
  /** The centre. */
  x: number;
  /** The place in its layer. */
  order: number;
}

/** The layer of each box: after those of all boxes before it, and inputs right before their use. */
function layersOf({ boxes, edges }: Diagram): number[] {
  const layers = boxes.map(() => 0);
  const hasInput = boxes.map(() => false);
  const sorted = [...edges].sort(([, a], [, b]) => a - b);
  for (const [from, to] of sorted) {
    layers[to] = Math.max(layers[to]!, layers[from]! + 1);
    hasInput[to] = true;
  }
  boxes.forEach((_, i) => {
    if (hasInput[i]) return;
    const uses = edges.flatMap(([from, to]) => from === i ? [layers[to]!] : []);
    if (uses.length > 0) layers[i] = Math.min(...uses) - 1;
  });
  return layers;
}

/** The slots of all layers, and their connections. */
function slotsOf(diagram: Diagram): Slot[][] {
  const layers = layersOf(diagram);
  const rows: Slot[][] = Array.from({ length: Math.max(0, ...layers) + 1 }, () => []);
  const add = (box: number | undefined, layer: number, width: number, height: number): Slot => {
    const row = rows[layer]!;
    const slot = { box, layer, width, height, up: [], down: [], x: 0, order: row.length };
    row.push(slot);
    return slot;
  };
  const own = diagram.boxes.map(({ lines }, i) => {
    const characters = Math.max(...lines.map((line) => cut(line).length));
    const width = Math.ceil(characters * CHARACTER) + 2 * PADDING;
    return add(i, layers[i]!, width, lines.length * LINE + 2 * PADDING - 4);
  });
  // Edges of one box share their way down.
  const lanes = new Map<string, Slot>();
  const seen = new Set<string>();
  for (const [from, to] of diagram.edges) {
    if (seen.has(`${from} ${to}`)) continue;
    seen.add(`${from} ${to}`);
    let at = own[from]!;
    for (let layer = layers[from]! + 1; layer < layers[to]!; layer++) {
      let lane = lanes.get(`${from} ${layer}`);
      if (lane === undefined) {
        lane = add(undefined, layer, LANE, 0);
        lanes.set(`${from} ${layer}`, lane);
        connect(at, lane);
      }
      at = lane;
    }
    connect(at, own[to]!);
  }
  return rows;
}

function connect(above: Slot, below: Slot): void {
  above.down.push(below);
  below.up.push(above);
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Sorts the slots of layers by the places of their neighbours, so that few edges cross. */
function sortLayers(rows: readonly Slot[][]): void {
  const sort = (row: Slot[], neighbours: (slot: Slot) => readonly Slot[]): void => {
    const key = new Map(row.map((slot) => {
      const near = neighbours(slot);
      return [slot, near.length === 0 ? slot.order : mean(near.map(({ order }) => order))];
    }));
    row.sort((a, b) => key.get(a)! - key.get(b)! || a.order - b.order);
    row.forEach((slot, i) => slot.order = i);
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const row of rows) sort(row, ({ up }) => up);
    for (const row of rows.toReversed()) sort(row, ({ down }) => down);
  }
  for (const row of rows) sort(row, ({ up }) => up);
}

/** The distance of the centres of two adjacent slots. */
function apart(a: Slot, b: Slot): number {
  return (a.width + b.width) / 2 + GAP_X;
}

/**
 * Moves the slots of a layer as near to `wanted` as their order and distances allow: the sum of the
 * squares of the errors is the least (isotonic regression).
 */
function settle(row: readonly Slot[], wanted: readonly number[]): void {
  const shifts = [0];
  for (let i = 1; i < row.length; i++) shifts.push(shifts[i - 1]! + apart(row[i - 1]!, row[i]!));
  const runs: { sum: number; count: number }[] = [];
  wanted.forEach((x, i) => {
    runs.push({ sum: x - shifts[i]!, count: 1 });
    for (let k = runs.length - 1; k > 0; k--) {
      const [before, last] = [runs[k - 1]!, runs[k]!];
      if (before.sum / before.count < last.sum / last.count) break;
      before.sum += last.sum;
      before.count += last.count;
      runs.pop();
    }
  });
  let i = 0;
  for (const { sum, count } of runs) {
    for (let k = 0; k < count; k++, i++) row[i]!.x = sum / count + shifts[i]!;
  }
}

/** Chooses the centres of all slots. */
function placeAcross(rows: readonly Slot[][]): void {
  for (const row of rows) settle(row, row.map(() => 0));
  const move = (row: readonly Slot[], neighbours: (slot: Slot) => readonly Slot[]): void =>
    settle(
      row,
      row.map((slot) => {
        const near = neighbours(slot);
        return near.length === 0 ? slot.x : mean(near.map(({ x }) => x));
      }),
    );
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const row of rows) move(row, ({ up }) => up);
    for (const row of rows.toReversed()) move(row, ({ down }) => down);
  }
  for (const row of rows) move(row, ({ up, down }) => [...up, ...down]);
  const left = Math.min(...rows.flat().map(({ x, width }) => x - width / 2));
  for (const slot of rows.flat()) slot.x = Math.round(slot.x - left + MARGIN);
}

const cut = (line: string): string =>
  line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS - 1)}…` : line;

const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
    // XML has no form for control characters.
    // deno-lint-ignore no-control-regex
    .replace(/[\u0000-\u001f\ufffe\uffff]|\p{Surrogate}/gu, "�");

/** All rules are for this class: pages may contain the text of the file. */
const CLASS = "rowmajor-diagram";

const RULES: readonly (readonly [selector: string, rules: string])[] = [
  ["", "--page:#fff;--text:#0f172a;--faint:#475569;--edge:#64748b;--input:#eef2ff"],
  ["", "--input-line:#6366f1;--op:#f8fafc;--op-line:#64748b;--group:#ecfdf5"],
  ["", "--group-line:#059669;--output:#fff7ed;--output-line:#ea580c"],
  [" .page", "fill:var(--page)"],
  [" text", "font:12px ui-monospace,Menlo,Consolas,monospace;fill:var(--faint);white-space:pre"],
  [" .title", "font-weight:600;fill:var(--text)"],
  [" .edge", "fill:none;stroke:var(--edge);stroke-width:1.3"],
  [" .head", "fill:var(--edge)"],
  ...["input", "op", "group", "output"].map((kind) =>
    [` .${kind}`, `fill:var(--${kind});stroke:var(--${kind}-line)`] as const
  ),
];

const DARK = [
  "--page:#0f172a;--text:#f1f5f9;--faint:#cbd5e1;--edge:#94a3b8;--input:#1e1b4b",
  "--input-line:#818cf8;--op:#1e293b;--op-line:#94a3b8;--group:#064e3b",
  "--group-line:#34d399;--output:#431407;--output-line:#fb923c",
].join(";");

const STYLE = [
  ...RULES.map(([selector, rules]) => `.${CLASS}${selector}{${rules}}`),
  `@media (prefers-color-scheme:dark){.${CLASS}{${DARK}}}`,
].join("\n");

/** A box, whose upper edge is at `y`. */
function drawBox({ x, width, height }: Slot, y: number, { lines, kind }: DiagramBox): string[] {
  const left = x - Math.ceil(width / 2);
  return [
    `<rect class="${kind}" x="${left}" y="${y}" width="${width}" height="${height}" rx="5"/>`,
    ...lines.map((line, i) => {
      const [at, title] = [y + PADDING + 8 + i * LINE, i === 0 ? ' class="title"' : ""];
      return `<text${title} x="${left + PADDING}" y="${at}">${escape(cut(line))}</text>`;
    }),
  ];
}

/** `diagram` as the text of an SVG file. */
export function drawDiagram(diagram: Diagram): string {
  const { title, boxes } = diagram;
  const rows = slotsOf(diagram);
  sortLayers(rows);
  placeAcross(rows);
  const tops: number[] = [];
  const bottoms: number[] = [];
  let y = MARGIN;
  for (const row of rows) {
    tops.push(y);
    y += Math.max(0, ...row.map(({ height }) => height));
    bottoms.push(y);
    y += GAP_Y;
  }
  const edges: string[] = [];
  const shapes: string[] = [];
  for (const slot of rows.flat()) {
    const [top, bottom] = [tops[slot.layer]!, bottoms[slot.layer]!];
    const from = slot.box === undefined ? top : top + slot.height;
    for (const to of slot.down) {
      // Edges bend between layers only, where no box is.
      const end = tops[to.layer]!;
      const middle = (bottom + end) / 2;
      edges.push(
        `<path class="edge" d="M${slot.x} ${from}V${bottom}C${slot.x} ${middle} ${to.x} ${middle} ` +
          `${to.x} ${end}"/>`,
      );
      if (to.box === undefined) continue;
      edges.push(`<path class="head" d="M${to.x - 4} ${end - 7}h8l-4 7z"/>`);
    }
    if (slot.box !== undefined) shapes.push(...drawBox(slot, top, boxes[slot.box]!));
  }
  const right = Math.max(...rows.flat().map(({ x, width }) => x + Math.ceil(width / 2)));
  const [width, height] = [right + MARGIN, y - GAP_Y + MARGIN];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" ` +
    `height="${height}" class="${CLASS}" role="img">`,
    `<title>${escape(title)}</title>`,
    `<style>${STYLE}</style>`,
    `<rect class="page" width="${width}" height="${height}"/>`,
    ...edges,
    ...shapes,
    "</svg>",
    "",
  ].join("\n");
}
