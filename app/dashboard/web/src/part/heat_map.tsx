// A heat map of many stores: darker means more.
import { useState } from "preact/hooks";
import { compact, duration, percent } from "../format";
import { to } from "../route";
import type { Row } from "../view/stores";
import { Choice } from "./choice";
import { Name } from "./text";

type Measure = "backlog" | "dead" | "oldest" | "errors";

const measures = [
  ["backlog", "Backlog"],
  ["dead", "Dead"],
  ["oldest", "Oldest"],
  ["errors", "Error rate"],
] as const;

function valueOf(row: Row, measure: Measure): number | null {
  const { counts } = row;
  switch (measure) {
    case "backlog":
      return counts && counts.ready + counts.scheduled + counts.leased + counts.waiting;
    case "dead":
      return counts && counts.dead;
    case "oldest":
      return counts && (counts.oldest_pending_seconds ?? 0);
    case "errors":
      return row.errorRate;
  }
}

function text(value: number | null, measure: Measure): string {
  if (value === null) return "–";
  return measure === "oldest" ? duration(value) : measure === "errors" ? percent(value) : compact(value);
}

/** Five steps, by the logarithm: a store with ten times the load is one or two steps up. */
function heat(value: number | null, top: number): number {
  if (value === null || value <= 0 || top <= 0) return 0;
  return Math.max(1, Math.ceil((5 * Math.log1p((100 * value) / top)) / Math.log1p(100)));
}

export function HeatMap({ rows }: { rows: Row[] }) {
  const [measure, setMeasure] = useState<Measure>("backlog");
  const top = Math.max(...rows.map((row) => valueOf(row, measure) ?? 0));
  return (
    <section class="heat" aria-label="Heat map of the stores">
      <Choice label="Heat map of" name="heat" value={measure} options={measures} onChange={setMeasure} />
      <ul>
        {rows.map((row) => {
          const value = valueOf(row, measure);
          const view = measure === "dead" ? "dead" : "messages";
          return (
            <li key={row.store + row.box}>
              <a
                class={row.error ? "cell lost" : `cell heat${heat(value, top)}`}
                href={to(view, { store: row.store, box: row.box, state: view === "messages" ? "open" : undefined })}
              >
                <span class="where">
                  <Name text={row.store} limit={40} /> <span class="kind">{row.box}</span>
                </span>
                <b>{row.error ? "away" : text(value, measure)}</b>
              </a>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
