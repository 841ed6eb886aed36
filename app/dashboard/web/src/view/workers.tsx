// Workers, named leases and housekeeping.
import { get } from "../api/client";
import type { Chore, NamedLease, Worker, Workers as Answer } from "../api/types";
import { count, plural } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import { Empty, Loading, ProblemNotice } from "../part/notice";
import { Table, type Column } from "../part/table";
import { Long, Name } from "../part/text";
import { useNow, When } from "../part/time";

/** Workers send a heartbeat about every 15 s. */
const silentAfter = 60;

export function Workers() {
  const { tick } = useLive();
  const { answer, problem, again } = useLoad((signal) => get<Answer>("v1/workers", {}, signal), "workers", tick);
  return (
    <>
      <h1>Workers</h1>
      {problem && <ProblemNotice problem={problem} again={again} />}
      {!answer && !problem && <Loading />}
      {answer && (
        <>
          <WorkerTable workers={answer.workers} />
          <Others count={answer.other.workers} of="worker" />
          <h2>Named leases</h2>
          {answer.leases.length === 0 ? (
            <Empty title="No named leases." />
          ) : (
            <Table
              caption="Named leases"
              columns={leaseColumns}
              rows={answer.leases}
              rowKey={(row) => JSON.stringify([row.store, row.box, row.name, row.owner])}
            />
          )}
          <Others count={answer.other.leases} of="lease" />
          <h2>Housekeeping</h2>
          {answer.housekeeping.length === 0 ? (
            <Empty title="No housekeeping run yet." />
          ) : (
            <Table
              caption="Housekeeping"
              columns={choreColumns}
              rows={answer.housekeeping}
              rowKey={(row) => JSON.stringify([row.store, row.box, row.chore])}
            />
          )}
          <Others count={answer.other.housekeeping} of="chore" />
        </>
      )}
    </>
  );
}

function Others({ count: left, of }: { count: number; of: string }) {
  return left > 0 ? <p class="soft">{plural(left, `more ${of}`)} not shown</p> : null;
}

const where = {
  name: "where",
  title: "Store",
  sort: (row: { store: string; box: string }) => row.store + row.box,
  cell: (row: { store: string; box: string }) => (
    <>
      <Name text={row.store} /> <span class="soft">· {row.box}</span>
    </>
  ),
};

const countOr = (value: number | null) => (value === null ? "–" : count(value));
const when = (at: string | null) => (at === null ? "–" : <When at={at} />);

function WorkerTable({ workers }: { workers: Worker[] }) {
  const now = useNow();
  if (workers.length === 0) {
    return <Empty title="No workers.">No route is configured, or older workers that send no heartbeats run elsewhere.</Empty>;
  }
  const silent = ({ seen_at: seen }: Worker) =>
    seen !== null && (now.getTime() - new Date(seen).getTime()) / 1000 > silentAfter;
  const columns: Column<Worker>[] = [
    {
      name: "name",
      title: "Worker",
      head: true,
      sort: (row) => row.name ?? "",
      cell: (row) => (
        <>
          {row.name === null ? <span class="soft">unknown</span> : <Name text={row.name} />}
          {silent(row) && <span class="tag warn">silent</span>}
        </>
      ),
    },
    where,
    { name: "leases", title: "Leases", number: true, sort: (row) => row.leases, cell: (row) => count(row.leases) },
    { name: "done", title: "Done", number: true, sort: (row) => row.done ?? -1, cell: (row) => countOr(row.done) },
    { name: "failed", title: "Failed", number: true, sort: (row) => row.failed ?? -1, cell: (row) => countOr(row.failed) },
    { name: "seen", title: "Last heartbeat", sort: (row) => row.seen_at ?? "", cell: (row) => when(row.seen_at) },
    { name: "started", title: "Started", sort: (row) => row.started_at ?? "", cell: (row) => when(row.started_at) },
    { name: "version", title: "Version", sort: (row) => row.version ?? "", cell: (row) => <Name text={row.version ?? "–"} /> },
    {
      name: "owner",
      title: "Owner",
      cell: (row) => (
        <span class="code soft">
          <Name text={row.owner.slice(0, 8)} />
        </span>
      ),
    },
  ];
  return (
    <Table
      caption="Workers"
      columns={columns}
      rows={workers}
      rowKey={(row) => JSON.stringify([row.store, row.box, row.owner])}
    />
  );
}

const leaseColumns: Column<NamedLease>[] = [
  { name: "name", title: "Name", head: true, sort: (row) => row.name, cell: (row) => <Name text={row.name} /> },
  where,
  {
    name: "owner",
    title: "Held by",
    cell: (row) => (
      <span class="code">
        <Name text={row.owner} />
      </span>
    ),
  },
  { name: "until", title: "Until", sort: (row) => row.until, cell: (row) => <When at={row.until} /> },
];

const choreColumns: Column<Chore>[] = [
  { name: "chore", title: "Chore", head: true, sort: (row) => row.chore, cell: (row) => <Name text={row.chore} /> },
  where,
  { name: "last", title: "Last run", sort: (row) => row.last_at, cell: (row) => <When at={row.last_at} /> },
  { name: "rows", title: "Rows", number: true, sort: (row) => row.rows, cell: (row) => count(row.rows) },
  {
    name: "end",
    title: "Result",
    sort: (row) => row.end,
    cell: (row) =>
      row.error ? (
        <span class="bad">
          <Long text={row.error} limit={160} />
        </span>
      ) : (
        <Name text={row.end} />
      ),
  },
];
