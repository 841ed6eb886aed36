// A line chart drawn by uPlot, with its values as text: the latest ones, or those under the pointer.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Series } from "../api/types";
import { axisSteps, clockTime, nothing } from "../format";
import { useThemeName } from "../theme";

export interface Line {
  label: string;
  values: Series;
  colour: "accent" | "bad" | "good" | "second";
  dashed?: boolean;
}

interface Props {
  title: string;
  at: number[];
  lines: Line[];
  format: (value: number) => string;
  /** The minimum of the axis maximum, so that small values stay at the bottom. */
  least: number;
  wide?: boolean;
}

const height = 150;

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function options({ lines, format, least }: Props, width: number, onPoint: (index: number | null) => void) {
  const axis = {
    stroke: colour("--soft"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px " + colour("--sans"),
  };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 8, 0, 0],
    cursor: {
      sync: { key: "history" },
      points: { size: 6 },
      drag: { x: false, y: false },
      y: false,
    },
    hooks: { setCursor: [(plot: uPlot) => onPoint(plot.cursor.idx ?? null)] },
    scales: { y: { range: (_: uPlot, __: number, top: number) => [0, Math.max(top * 1.1, least)] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        space: 70,
        values: (_: uPlot, splits: number[]) =>
          splits.map((second) => clockTime(new Date(second * 1000)).slice(0, 5)),
      },
      {
        ...axis,
        size: 52,
        space: 28,
        incrs: axisSteps,
        values: (_: uPlot, splits: number[]) => splits.map(format),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(`--${line.colour}`),
        width: 1.75,
        ...(line.dashed && { dash: [5, 4] }),
        points: { show: false },
        spanGaps: false,
      })),
    ],
  } as uPlot.Options;
}

export function Chart(props: Props) {
  const { title, at, lines, format, wide } = props;
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [point, setPoint] = useState<number | null>(null);
  const theme = useThemeName();
  const known = useMemo(() => lines.some((line) => line.values.some((value) => value !== null)), [lines]);
  const shape = lines.map((line) => line.label).join() + theme + known + (at.length > 0 ? at[at.length - 1]! - at[0]! : 0);

  useEffect(() => {
    const element = container.current;
    if (!element || !known) return;
    const data = [at, ...lines.map((line) => line.values)] as uPlot.AlignedData;
    const drawn = new uPlot(options(props, element.clientWidth, setPoint), data, element);
    plot.current = drawn;
    const observer = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData([at, ...lines.map((line) => line.values)] as uPlot.AlignedData);
  }, [at, lines]);

  return (
    <figure class={`chart ${wide ? "wide" : ""}`}>
      <figcaption>
        <h3>{title}</h3>
        {known && (
          <ul class="legend">
            {lines.map((line) => (
              <li key={line.label}>
                <span class={`key ${line.colour} ${line.dashed ? "dashed" : ""}`} aria-hidden="true" />
                <span class="soft">{line.label}</span> <b>{text(valueAt(line.values, point), format)}</b>
              </li>
            ))}
            {point !== null && at[point] !== undefined && <li class="soft">{clockTime(new Date(at[point]! * 1000))}</li>}
          </ul>
        )}
      </figcaption>
      {known ? <div ref={container} class="plot" aria-hidden="true" /> : <p class="plot none">No data yet.</p>}
    </figure>
  );
}

/** The index under the pointer, or the last known one. */
function valueAt(values: Series, point: number | null): number | null {
  if (point !== null) return values[point] ?? null;
  for (let i = values.length - 1; i >= 0; --i) {
    const value = values[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

function text(value: number | null, format: (value: number) => string): string {
  return value === null ? nothing : format(value);
}
