// The overview: status first, then the numbers, then the charts.
import { useMemo } from "preact/hooks";
import { get } from "../api/client";
import type { BoxName, BoxOverview, History, Overview as Answer, Reason, Span } from "../api/types";
import { clockTime, compact, count, duration, milliseconds, percent, plural, rate } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import { Chart, type Line } from "../part/chart";
import { Choice } from "../part/choice";
import { Empty, Loading, ProblemNotice } from "../part/notice";
import { Shape } from "../part/state";
import { Long, Name } from "../part/text";
import { replace, to, type Parameters } from "../route";

const spans = [
  ["15m", "15 min"],
  ["1h", "1 h"],
  ["24h", "24 h"],
] as const;

const boxes = [
  ["outbox", "Outbox"],
  ["inbox", "Inbox"],
] as const;

export function Overview({ parameters }: { parameters: Parameters }) {
  const { overview, problem, staleSince } = useLive();
  if (!overview) return problem ? <ProblemNotice problem={problem} /> : <Loading />;
  return (
    <>
      {staleSince ? <Unknown overview={overview} /> : <Verdict overview={overview} />}
      <div class="boxes">
        {overview.boxes.map((box) => (
          <Box key={box.box} box={box} />
        ))}
      </div>
      <Charts parameters={parameters} />
    </>
  );
}

/** An outdated status is shown as unknown. */
function Unknown({ overview }: { overview: Answer }) {
  return (
    <section class="verdict" aria-label="Verdict">
      <h1>
        <Shape of="unknown" />
        unknown
      </h1>
      <p class="lead">
        Last known status: {overview.status}
        {overview.at && ` at ${clockTime(new Date(overview.at))}`}. The numbers are from that time.
      </p>
    </section>
  );
}

function Verdict({ overview }: { overview: Answer }) {
  const { status, reasons, stores, unreachable } = overview;
  return (
    <section class={`verdict ${status}`} aria-label="Verdict">
      <h1>
        <Shape of={status} />
        {status}
      </h1>
      {reasons.length === 0 ? (
        <p class="lead">
          No problems. {plural(stores, "store")} {stores === 1 ? "responds" : "respond"}.
        </p>
      ) : (
        <ul class="reasons">
          {reasons.map((reason) => (
            <li key={JSON.stringify(reason)}>
              <ReasonLine reason={reason} />
            </li>
          ))}
        </ul>
      )}
      {unreachable > 0 && (
        <p class="lead">
          {count(unreachable)} of {plural(stores, "store")} cannot be reached; the last known numbers are shown.
        </p>
      )}
    </section>
  );
}

function ReasonLine({ reason }: { reason: Reason }) {
  const store = reason.store ?? undefined;
  const box = reason.box ?? undefined;
  return (
    <>
      <a href={placeOf(reason)}>
        {store ? <Name text={store} /> : "everywhere"}
        {box ? ` · ${box}` : ""}
      </a>
      <span>
        <Long text={reason.text} limit={240} />
      </span>
    </>
  );
}

/** The page on which the reason can be fixed. */
function placeOf(reason: Reason): string {
  const at = { store: reason.store ?? undefined, box: reason.box ?? undefined };
  switch (reason.about) {
    case "dead":
      return to("dead", at);
    case "key":
      return to("messages", { ...at, state: "scheduled" });
    case "pending":
      return to("messages", { ...at, state: "open" });
    case "topic":
      return to("stores", { show: "topics" });
    case "route":
      return to("stores", { show: "routes" });
    default:
      return to("stores");
  }
}

function Box({ box }: { box: BoxOverview }) {
  const { counts } = box;
  const list = (state: string) => to("messages", { box: box.box, state });
  return (
    <section class="box" aria-labelledby={box.box}>
      <h2 id={box.box}>{box.box}</h2>
      <dl class="numbers">
        <Number label="open" value={compact(box.open)} href={list("open")} large />
        <Number label="dead" value={compact(counts.dead)} href={to("dead", { box: box.box })} bad={counts.dead > 0} large />
        <Number label="done / min" value={rate(box.done_per_minute)} large />
        <Number label="ready" value={compact(counts.ready)} href={list("ready")} />
        <Number label="leased" value={compact(counts.leased)} href={list("leased")} />
        <Number label="scheduled" value={compact(counts.scheduled)} href={list("scheduled")} />
        <Number label="waiting" value={compact(counts.waiting)} href={list("waiting")} />
        <Number label="oldest due" value={duration(counts.oldest_pending_seconds)} />
        <Number label="oldest open" value={duration(counts.oldest_open_seconds)} />
        <Number label="handler p50 / p99" value={`${milliseconds(box.p50_ms)} / ${milliseconds(box.p99_ms)}`} />
      </dl>
    </section>
  );
}

interface NumberProps {
  label: string;
  value: string;
  href?: string;
  bad?: boolean;
  large?: boolean;
}

function Number({ label, value, href, bad = false, large = false }: NumberProps) {
  return (
    <div class={`${large ? "large" : ""} ${bad ? "bad" : ""}`}>
      <dt>{label}</dt>
      <dd>{href ? <a href={href}>{value}</a> : value}</dd>
    </div>
  );
}

function Charts({ parameters }: { parameters: Parameters }) {
  const span = spans.find(([name]) => name === parameters.span)?.[0] ?? "15m";
  const box = boxes.find(([name]) => name === parameters.chart)?.[0] ?? "outbox";
  const { tick } = useLive();
  const { answer, problem, again } = useLoad(
    (signal) => get<History>("v1/history", { box, span }, signal),
    box + span,
    tick,
  );
  const choose = (next: { span?: Span; chart?: BoxName }) =>
    replace(to("overview", { ...parameters, ...next }));
  return (
    <section aria-labelledby="history">
      <div class="bar">
        <h2 id="history">History</h2>
        <Choice label="Box" name="chart" value={box} options={boxes} onChange={(chart) => choose({ chart })} />
        <Choice label="Time span" name="span" value={span} options={spans} onChange={(next) => choose({ span: next })} />
      </div>
      <p class="hint">
        Throughput, errors and handler times are those of this daemon; what other processes do with the boxes shows in
        the backlog.
      </p>
      {answer ? <Drawn history={answer} /> : problem ? <ProblemNotice problem={problem} again={again} /> : <Loading />}
    </section>
  );
}

function Drawn({ history }: { history: History }) {
  const lines = useMemo(() => linesOf(history), [history]);
  const { at } = history;
  if (history.open.every((value) => value === null)) {
    return <Empty title="No history yet.">The first data points appear after a few seconds.</Empty>;
  }
  return (
    <div class="charts">
      <Chart title="Throughput per minute" at={at} lines={lines.throughput} format={rate} least={10} wide />
      <Chart title="Error rate" at={at} lines={lines.errors} format={percent} least={0.05} />
      <Chart title="Backlog" at={at} lines={lines.backlog} format={compact} least={10} />
      <Chart title="Oldest delivery" at={at} lines={lines.oldest} format={duration} least={10} />
      <Chart title="Handler time" at={at} lines={lines.time} format={milliseconds} least={10} />
    </div>
  );
}

function linesOf(history: History): Record<"throughput" | "errors" | "backlog" | "oldest" | "time", Line[]> {
  const share = history.done.map((done, i) => {
    const failed = history.failed[i] ?? null;
    if (done === null || failed === null || done + failed === 0) return null;
    return failed / (done + failed);
  });
  return {
    throughput: [
      { label: "done", values: history.done, colour: "accent" },
      { label: "failed", values: history.failed, colour: "bad", dashed: true },
    ],
    errors: [{ label: "failed attempts", values: share, colour: "bad" }],
    backlog: [
      { label: "open", values: history.open, colour: "accent" },
      { label: "dead", values: history.dead, colour: "bad", dashed: true },
    ],
    oldest: [{ label: "waiting for", values: history.oldest_seconds, colour: "accent" }],
    time: [
      { label: "p50", values: history.p50_ms, colour: "accent" },
      { label: "p99", values: history.p99_ms, colour: "second", dashed: true },
    ],
  };
}
