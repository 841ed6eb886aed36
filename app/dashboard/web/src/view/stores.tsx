// Stores and topics, one row each; pause and resume; a heat map when there are many.
import { useState } from "preact/hooks";
import { get } from "../api/client";
import type { BoxName, Counts, Dispatch, Status, StoreView } from "../api/types";
import { count, duration, percent, plural, rate } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import { Choice } from "../part/choice";
import { HeatMap } from "../part/heat_map";
import { Empty, Loading, ProblemNotice } from "../part/notice";
import { PauseDialog, type PauseRequest } from "../part/pause";
import { Routes } from "../part/routes";
import { State } from "../part/state";
import { useStores } from "../part/store_choice";
import { Table, type Column } from "../part/table";
import { Long, Name } from "../part/text";
import { replace, to, type Parameters } from "../route";
import { useCanOperate } from "../session";

export interface Row {
  store: string;
  box: BoxName;
  topic: string | null;
  /** The number of topics in this row: all but the largest. */
  others?: number;
  dialect: string;
  status: Status | null;
  paused: boolean;
  counts: Counts | null;
  perMinute: number | null;
  errorRate: number | null;
  error: string | null;
}

const none = { done_per_minute: null, error_rate: null };

function storeRows(stores: StoreView[], dispatch: Dispatch): Row[] {
  return stores.flatMap((store) =>
    store.boxes.map((box) => ({
      store: store.name,
      box: box.box,
      topic: null,
      dialect: store.dialect,
      status: box.status ?? null,
      paused: dispatch.paused || dispatch.paused_stores.includes(store.name),
      counts: box.counts ?? null,
      perMinute: box.done_per_minute ?? null,
      errorRate: box.error_rate ?? null,
      error: box.error ?? store.error ?? null,
    })),
  );
}

function topicRows(stores: StoreView[], dispatch: Dispatch): Row[] {
  return stores.flatMap((store) =>
    store.boxes.flatMap((box) => {
      const at = { store: store.name, box: box.box, dialect: store.dialect, status: null, error: null };
      const rows: Row[] = Object.entries(box.topics ?? {}).map(([topic, counts]) => ({
        ...at,
        topic,
        paused: dispatch.paused || dispatch.paused_topics.includes(topic),
        counts,
        perMinute: { ...none, ...counts }.done_per_minute,
        errorRate: { ...none, ...counts }.error_rate,
      }));
      const other = box.other_topics;
      if (other) {
        const rates = { perMinute: null, errorRate: null };
        rows.push({ ...at, ...rates, topic: "", others: other.topics, paused: dispatch.paused, counts: other.counts });
      }
      return rows;
    }),
  );
}

const backlog = (counts: Counts | null) =>
  counts ? counts.ready + counts.scheduled + counts.leased + counts.waiting : -1;

const kinds = [
  ["stores", "Stores"],
  ["topics", "Topics"],
  ["routes", "Routes"],
] as const;

/** More stores than fit in a readable table. */
const many = 12;

export function Stores({ parameters }: { parameters: Parameters }) {
  const { tick } = useLive();
  const stores = useStores(tick);
  const dispatch = useLoad((signal) => get<Dispatch>("v1/dispatch", {}, signal), "dispatch", tick);
  const [pausing, setPausing] = useState<PauseRequest | null>(null);
  const can = useCanOperate();
  const kind = kinds.find(([name]) => name === parameters.show)?.[0] ?? "stores";
  const again = () => {
    stores.again();
    dispatch.again();
  };
  const problem = stores.problem ?? dispatch.problem;
  return (
    <>
      <div class="bar">
        <h1>Stores and topics</h1>
        <Choice
          label="Show"
          name="show"
          value={kind}
          options={kinds}
          onChange={(show) => replace(to("stores", { show: show === "stores" ? undefined : show }))}
        />
        {can && dispatch.answer && <PauseAll paused={dispatch.answer.paused} onPause={setPausing} />}
      </div>
      {problem && <ProblemNotice problem={problem} again={again} />}
      {stores.answer && dispatch.answer ? (
        kind === "routes" ? (
          <Routes dispatch={dispatch.answer} again={dispatch.again} />
        ) : (
          <Listed kind={kind} stores={stores.answer} dispatch={dispatch.answer} onPause={can ? setPausing : null} />
        )
      ) : (
        !problem && <Loading />
      )}
      {pausing && (
        <PauseDialog
          request={pausing}
          onClose={() => {
            setPausing(null);
            again();
          }}
        />
      )}
    </>
  );
}

function PauseAll({ paused, onPause }: { paused: boolean; onPause: (request: PauseRequest) => void }) {
  return (
    <button type="button" class="end" onClick={() => onPause({ pause: !paused })}>
      {paused ? "Resume everything" : "Pause everything"}
    </button>
  );
}

interface ListedProps {
  kind: "stores" | "topics";
  stores: StoreView[];
  dispatch: Dispatch;
  onPause: ((request: PauseRequest) => void) | null;
}

function Listed({ kind, stores, dispatch, onPause }: ListedProps) {
  const rows = kind === "stores" ? storeRows(stores, dispatch) : topicRows(stores, dispatch);
  if (rows.length === 0) {
    return kind === "stores" ? (
      <Empty title="No stores.">The configuration has none.</Empty>
    ) : (
      <Empty title="No topics.">There are no open and no dead messages.</Empty>
    );
  }
  return (
    <>
      {kind === "stores" && stores.length > many && <HeatMap rows={rows} />}
      <Table
        key={kind}
        caption={kind === "stores" ? "Stores" : "Topics"}
        columns={columns(kind, dispatch, onPause)}
        rows={rows}
        rowKey={(row) => JSON.stringify([row.store, row.box, row.topic])}
        first="backlog"
      />
    </>
  );
}

function columns(kind: "stores" | "topics", dispatch: Dispatch, onPause: ListedProps["onPause"]): Column<Row>[] {
  const topics = kind === "topics";
  const list: Column<Row>[] = [
    {
      name: "name",
      title: topics ? "Topic" : "Store",
      head: true,
      sort: (row) => row.topic ?? row.store,
      cell: (row) => (
        <>
          <a href={to("messages", { store: row.store, box: row.box, state: "open", topic: row.topic || undefined })}>
            {row.others ? plural(row.others, "other topic") : <Name text={row.topic ?? row.store} />}
          </a>
          {!topics && <span class="soft"> {row.dialect}</span>}
          {row.paused && <span class="tag">paused</span>}
          {row.error && (
            <p class="mistake">
              <Long text={row.error} limit={160} />
            </p>
          )}
        </>
      ),
    },
  ];
  if (topics) list.push({ name: "store", title: "Store", sort: (row) => row.store, cell: (row) => <Name text={row.store} /> });
  list.push({ name: "box", title: "Box", sort: (row) => row.box, cell: (row) => row.box });
  if (!topics) {
    list.push({
      name: "status",
      title: "Health",
      sort: (row) => row.status ?? "",
      cell: (row) => (row.status ? <State of={row.status} /> : "–"),
    });
  }
  list.push(
    {
      name: "backlog",
      title: "Backlog",
      number: true,
      sort: (row) => backlog(row.counts),
      cell: (row) => (row.counts ? count(backlog(row.counts)) : "–"),
    },
    {
      name: "dead",
      title: "Dead",
      number: true,
      sort: (row) => row.counts?.dead ?? -1,
      cell: (row) =>
        row.counts && row.counts.dead > 0 ? (
          <a class="bad" href={to("dead", { store: row.store, box: row.box, topic: row.topic || undefined })}>
            {count(row.counts.dead)}
          </a>
        ) : row.counts ? (
          "0"
        ) : (
          "–"
        ),
    },
    {
      name: "oldest",
      title: "Oldest",
      number: true,
      sort: (row) => row.counts?.oldest_pending_seconds ?? -1,
      cell: (row) => duration(row.counts?.oldest_pending_seconds),
    },
    {
      name: "age",
      title: "Age",
      number: true,
      sort: (row) => row.counts?.oldest_open_seconds ?? -1,
      cell: (row) => duration(row.counts?.oldest_open_seconds),
    },
    { name: "rate", title: "Done/min", number: true, sort: (row) => row.perMinute ?? -1, cell: (row) => rate(row.perMinute) },
    {
      name: "errors",
      title: "Error rate",
      number: true,
      sort: (row) => row.errorRate ?? -1,
      cell: (row) => percent(row.errorRate),
    },
  );
  if (onPause && !dispatch.paused) {
    list.push({
      name: "action",
      title: "Pause or resume",
      unseen: true,
      cell: (row) => row.others ? null : (
        <button
          type="button"
          class="small"
          aria-label={`${row.paused ? "Resume" : "Pause"} ${row.topic ?? row.store}`}
          onClick={() =>
            onPause({ pause: !row.paused, ...(row.topic === null ? { store: row.store } : { topic: row.topic }) })
          }
        >
          {row.paused ? "Resume" : "Pause"}
        </button>
      ),
    });
  }
  return list;
}
