// The audit: which operator changed what, when, and how many messages.
import { get } from "../api/client";
import type { AuditEntry, AuditPage } from "../api/types";
import { count } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import { Empty, Loading, ProblemNotice } from "../part/notice";
import { chosen, StoreChoice, useStores, type Stored } from "../part/store_choice";
import { Table, type Column } from "../part/table";
import { Long, Name } from "../part/text";
import { When } from "../part/time";
import { go, to, type Parameters } from "../route";

export function Audit({ parameters }: { parameters: Parameters }) {
  const stores = useStores();
  const at = stores.answer && chosen(stores.answer, parameters.store, parameters.box);
  return (
    <>
      <h1>Audit</h1>
      {stores.problem && <ProblemNotice problem={stores.problem} again={stores.again} />}
      {at && <Entries at={at} after={parameters.after} />}
      {!stores.answer && !stores.problem && <Loading />}
    </>
  );
}

function Entries({ at, after }: { at: Stored; after: string | undefined }) {
  const { store, box } = at;
  const { tick } = useLive();
  const { answer, problem, again } = useLoad(
    (signal) => get<AuditPage>("v1/audit", { store, box, limit: 50, after }, signal),
    JSON.stringify([store, box, after]),
    after ? null : tick,
  );
  return (
    <>
      <div class="filter">
        <StoreChoice at={at} onChange={(nextStore, nextBox) => go(to("audit", { store: nextStore, box: nextBox }))} />
      </div>
      {problem && <ProblemNotice problem={problem} again={again} />}
      {!answer && !problem && <Loading />}
      {answer?.entries.length === 0 && (
        <Empty title="No operations.">The audit records what operators do to messages of this box.</Empty>
      )}
      {answer && answer.entries.length > 0 && (
        <Table caption="Audit, newest first" columns={columnsOf(at)} rows={answer.entries} rowKey={(row) => String(row.id)} />
      )}
      <p class="pages">
        {after && <a href={to("audit", { store, box })}>Newest</a>}
        {answer?.next && <a href={to("audit", { store, box, after: answer.next })}>Older</a>}
      </p>
    </>
  );
}

const columnsOf = ({ store, box }: Stored): Column<AuditEntry>[] => [
  { name: "at", title: "When", cell: (row) => <When at={row.at} exact /> },
  { name: "actor", title: "Operator", head: true, cell: (row) => <Name text={row.actor || "unknown"} /> },
  {
    name: "action",
    title: "What",
    cell: (row) => (
      <>
        <Name text={row.action} />
        {!row.finished && <span class="tag warn">unfinished</span>}
      </>
    ),
  },
  { name: "affected", title: "Messages", number: true, cell: (row) => count(row.affected) },
  {
    name: "number",
    title: "Message",
    number: true,
    cell: (row) =>
      row.number === null ? "–" : <a href={to("message", { store, box, number: String(row.number) })}>№ {row.number}</a>,
  },
  { name: "reason", title: "Reason", wide: true, cell: (row) => (row.reason ? <Long text={row.reason} limit={200} /> : "–") },
];
