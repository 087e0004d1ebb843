/**
 * Draws a run's ratios as SVG: a dot for each row and runtime on a logarithmic axis, a line at 1.
 *
 * Knows nothing of measurements or files.
 *
 * @module
 */
import { init } from "echarts";
import type { Results } from "./report.ts";
import { GROUPS } from "./work.ts";

const WIDTH = 820;
const LINE = 15;
const HEAD = 70;
const LABELS = 300;
const COLORS = { Deno: "#1b7f79", Bun: "#d1603d" } as const;

/** The rows of `results` with the given number of threads, group by group. */
export function toSvg(results: Results, threads: number): string {
  const rows = results.rows.filter((row) => row.threads === threads);
  const names: string[] = [];
  const dots: Record<keyof typeof COLORS, [number, number][]> = { Deno: [], Bun: [] };
  const headings = new Set<number>();
  for (const group of GROUPS) {
    const mine = rows.filter((row) => row.group === group && Object.keys(row.ratio).length > 0);
    if (mine.length === 0) continue;
    headings.add(names.length);
    names.push(group);
    for (const { name, ratio } of mine) {
      for (const runtime of ["Deno", "Bun"] as const) {
        if (ratio[runtime] !== undefined) dots[runtime].push([ratio[runtime], names.length]);
      }
      names.push(name);
    }
  }
  const height = HEAD + names.length * LINE + 30;
  const chart = init(null, null, { renderer: "svg", ssr: true, width: WIDTH, height });
  chart.setOption({
    animation: false,
    backgroundColor: "#fff",
    title: {
      text: `Time relative to the faster of NumPy and PyTorch, ${threads} ` +
        (threads === 1 ? "thread" : "threads"),
      subtext: "lower is better; left of 1, rowmajor is faster",
      left: 8,
      top: 4,
      itemGap: 4,
      textStyle: { fontSize: 14, color: "#222" },
    },
    legend: { right: 16, top: 6, data: Object.keys(COLORS) },
    grid: { left: LABELS, right: 24, top: HEAD, bottom: 30 },
    xAxis: [{ position: "top" }, { position: "bottom" }].map((side) => ({
      ...side,
      type: "log" as const,
      logBase: 2,
      axisLabel: { formatter: (value: number) => String(Number(value.toPrecision(3))) },
      splitLine: { lineStyle: { color: "#e4e4e4" } },
    })),
    yAxis: {
      type: "category",
      inverse: true,
      data: names,
      axisTick: { show: false },
      axisLabel: {
        interval: 0,
        fontSize: 11,
        formatter: (name: string, i: number) => headings.has(i) ? `{group|${name}}` : name,
        rich: { group: { fontWeight: "bold", fontSize: 12, color: "#000" } },
      },
    },
    series: (["Deno", "Bun"] as const).flatMap((name, i) =>
      // Each axis needs a series, or it has no extent.
      [0, 1].map((xAxisIndex) => ({
        name,
        type: "scatter" as const,
        xAxisIndex,
        data: xAxisIndex === 0 ? dots[name] : [],
        symbol: i === 0 ? "circle" : "diamond",
        symbolSize: i === 0 ? 7 : 9,
        itemStyle: { color: COLORS[name], opacity: 0.85 },
        markLine: i === 0 && xAxisIndex === 0
          ? {
            silent: true,
            symbol: "none",
            label: { show: false },
            lineStyle: { color: "#444", type: "solid" as const },
            data: [{ xAxis: 1 }],
          }
          : undefined,
      }))
    ),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg + "\n";
}
