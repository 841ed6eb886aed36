// Messages by filter. The filter is part of the address, so it can be shared as a link.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client";
import type { BoxName, Filter, FilterField, MessageEntry, MessagePage, OperationScope, Verb } from "../api/types";
import { count, plural } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import { OperationDialog, type OperationDraft } from "../part/operation_dialog";
import { FilterForm, filterFields } from "../part/filter";
import { Empty, Loading, ProblemNotice } from "../part/notice";
import { State } from "../part/state";
import { chosen, useStores, type Stored } from "../part/store_choice";
import { Table, type Column } from "../part/table";
import { Long, Name } from "../part/text";
import { When } from "../part/time";
import { go, to, type Parameters } from "../route";
import { useCanOperate } from "../session";

const pageSize = 50;

export function filterOf(parameters: Parameters): Filter {
  const filter: Filter = {};
  for (const name of filterFields) {
    const value = parameters[name];
    if (value) filter[name as FilterField] = value;
  }
  return filter;
}

export function Messages({ parameters }: { parameters: Parameters }) {
  const stores = useStores();
  const at = stores.answer && chosen(stores.answer, parameters.store, parameters.box);
  return (
    <>
      <h1>Messages</h1>
      {stores.problem && <ProblemNotice problem={stores.problem} again={stores.again} />}
      {at && <Found at={at} parameters={parameters} />}
      {stores.answer && !at && <Empty title="No stores.">The configuration has none.</Empty>}
      {!stores.answer && !stores.problem && <Loading />}
    </>
  );
}

function Found({ at, parameters }: { at: Stored; parameters: Parameters }) {
  const filter = filterOf(parameters);
  const { store, box } = at;
  const { after } = parameters;
  const { tick } = useLive();
  const key = JSON.stringify([store, box, filter, after]);
  const page = useLoad(
    (signal) => get<MessagePage>("v1/messages", { store, box, ...filter, limit: pageSize, after }, signal),
    key,
    // Later pages do not refresh, so that no row moves while you read.
    after ? null : tick,
  );
  const can = useCanOperate();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [acting, setActing] = useState<OperationDraft | null>(null);
  useEffect(() => setSelected(new Set()), [key]);
  const place = (change: Record<string, string | undefined>) =>
    to("messages", { ...parameters, store, box, after: undefined, ...change });

  const rows = page.answer?.messages ?? [];
  const marked = rows.filter((row) => selected.has(keyOf(row)));
  return (
    <>
      <FilterForm at={at} filter={filter} onApply={(next) => go(to("messages", next))} />
      {can && rows.length > 0 && (
        <Bulk
          store={store}
          box={box}
          filter={filter}
          marked={marked}
          onOperate={setActing}
          onClear={() => setSelected(new Set())}
        />
      )}
      {page.problem && <ProblemNotice problem={page.problem} again={page.again} />}
      {page.answer && rows.length === 0 && <None filter={filter} later={!!after} />}
      {rows.length > 0 && (
        <Table
          caption="Messages, newest first"
          columns={columns(at, rows, can ? { selected, setSelected } : null)}
          rows={rows}
          rowKey={keyOf}
        />
      )}
      {!page.answer && !page.problem && <Loading />}
      <p class="pages">
        {after && <a href={place({})}>Newest</a>}
        {page.answer?.next && <a href={place({ after: page.answer.next })}>Older</a>}
      </p>
      {acting && (
        <OperationDialog
          request={acting}
          onClose={() => {
            setActing(null);
            setSelected(new Set());
            page.again();
          }}
        />
      )}
    </>
  );
}

function None({ filter, later }: { filter: Filter; later: boolean }) {
  if (later) return <Empty title="No more messages." />;
  if (filter.state === "dead") return <Empty title="No dead letters.">No problems.</Empty>;
  if (Object.keys(filter).length === 0) {
    return <Empty title="The box is empty.">New messages appear here automatically.</Empty>;
  }
  return <Empty title="No matches.">Remove a condition from the filter.</Empty>;
}

/** The source of messages that were enqueued without one. */
export const unnamed = "-";

const keyOf = (row: MessageEntry) => `${row.delivery.number}.${row.delivery.handler}`;

interface Selection {
  selected: ReadonlySet<string>;
  setSelected: (keys: ReadonlySet<string>) => void;
}

function columns(at: Stored, rows: MessageEntry[], selection: Selection | null): Column<MessageEntry>[] {
  const list: Column<MessageEntry>[] = [];
  if (selection) list.push(boxColumn(selection));
  list.push(
    { name: "state", title: "State", cell: (row) => <State of={row.delivery.state} /> },
    {
      name: "id",
      title: "Message",
      head: true,
      cell: (row) => (
        <a href={to("message", { store: at.store, box: at.box, id: row.id, source: row.source })}>
          <Name text={row.id} limit={60} />
        </a>
      ),
    },
    { name: "topic", title: "Topic", cell: (row) => (row.topic === null ? "–" : <Name text={row.topic} limit={80} />) },
  );
  if (rows.some((row) => row.source !== unnamed)) {
    list.push({ name: "source", title: "Source", cell: (row) => <Name text={row.source} limit={60} /> });
  }
  if (rows.some((row) => row.delivery.handler)) {
    list.push({ name: "handler", title: "Handler", cell: (row) => <Name text={row.delivery.handler} limit={60} /> });
  }
  list.push(
    { name: "attempts", title: "Tries", number: true, cell: (row) => count(row.delivery.attempts) },
    { name: "created", title: "Created", cell: (row) => <When at={row.created_at} /> },
    {
      name: "error",
      title: "Last error",
      wide: true,
      cell: (row) => {
        const error = row.delivery.last_error || row.delivery.reason;
        return error ? <Long text={error} limit={140} /> : "–";
      },
    },
  );
  return list;
}

function boxColumn({ selected, setSelected }: Selection): Column<MessageEntry> {
  const toggle = (key: string) => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    setSelected(next);
  };
  return {
    name: "select",
    title: "Select",
    unseen: true,
    cell: (row) => (
      <input
        type="checkbox"
        aria-label={`Select ${row.id}`}
        checked={selected.has(keyOf(row))}
        onChange={() => toggle(keyOf(row))}
      />
    ),
  };
}

interface BulkProps {
  store: string;
  box: BoxName;
  filter: Filter;
  marked: MessageEntry[];
  onOperate: (request: OperationDraft) => void;
  onClear: () => void;
}

const open = ["open", "ready", "scheduled", "leased", "waiting"];

/** The operations for messages in that state; a filter for any state must not discard open messages. */
export function verbsFor(states: string[]): Verb[] {
  const dead = states.includes("dead");
  const pending = states.some((state) => open.includes(state));
  const verbs: Verb[] = [];
  if (dead) verbs.push("requeue");
  if (pending) verbs.push("postpone");
  if (dead || pending) verbs.push("discard");
  return verbs;
}

function Bulk({ store, box, filter, marked, onOperate, onClear }: BulkProps) {
  const some = marked.length > 0;
  const verbs = verbsFor(some ? marked.map((row) => row.delivery.state) : [filter.state ?? "any"]);
  const scope: OperationScope = some
    ? { deliveries: marked.map(({ delivery }) => ({ number: delivery.number, handler: delivery.handler })) }
    : { filter };
  const about = some ? plural(marked.length, "selected message") : "all matching messages";
  return (
    <div class="bulk" role="group" aria-label="Bulk operations">
      <span>{some ? `${count(marked.length)} selected` : "All matching messages"}</span>
      {verbs.map((verb) => (
        <button key={verb} type="button" class="small" onClick={() => onOperate({ verb, target: { store, box }, scope, about })}>
          {verb[0]!.toUpperCase() + verb.slice(1)}…
        </button>
      ))}
      {verbs.length === 0 && (
        <span class="soft">
          {some ? "Finished messages cannot be changed." : "Filter by the state dead or open to change all matching messages."}
        </span>
      )}
      {some && (
        <button type="button" class="quiet small" onClick={onClear}>
          Clear the selection
        </button>
      )}
    </div>
  );
}
