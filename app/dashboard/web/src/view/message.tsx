// One message: payload, deliveries, history and operations.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client";
import type { Delivery, HeldKey, MessageDetail, MessagePage, OperationScope, Verb } from "../api/types";
import { bytes, count, plural } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import type { Target } from "../operation";
import { OperationDialog, type OperationDraft } from "../part/operation_dialog";
import { Content, Headers } from "../part/content";
import { EditDialog } from "../part/edit";
import { Empty, Loading, ProblemNotice } from "../part/notice";
import { State } from "../part/state";
import { Table, type Column } from "../part/table";
import { Long, Name } from "../part/text";
import { Timeline } from "../part/timeline";
import { When } from "../part/time";
import { replace, to, type Parameters } from "../route";
import { useCanOperate } from "../session";
import { unnamed, verbsFor } from "./messages";

export function Message({ parameters }: { parameters: Parameters }) {
  const target: Target = { store: parameters.store ?? "", box: parameters.box === "inbox" ? "inbox" : "outbox" };
  return parameters.number ? (
    <Numbered number={Number(parameters.number)} target={target} />
  ) : (
    <Named id={parameters.id ?? ""} source={parameters.source} target={target} />
  );
}

function NotHere({ store, box }: Target) {
  return (
    <>
      <h1>Message</h1>
      <Empty title="Message not found.">
        This box never had it, or it was pruned. <a href={to("messages", { store, box })}>Show all messages</a>
      </Empty>
    </>
  );
}

/** Finds a message by the number in the audit and opens it. */
function Numbered({ number, target }: { number: number; target: Target }) {
  const { answer, problem, again } = useLoad(
    (signal) => get<MessagePage>("v1/messages", { ...target, after: String(number + 1), limit: 1 }, signal),
    JSON.stringify([target, number]),
    null,
  );
  const found = answer?.messages.find((message) => message.number === number);
  useEffect(() => {
    if (found) replace(to("message", { ...target, id: found.id, source: found.source }));
  }, [found]);
  if (problem) return <ProblemNotice problem={problem} again={again} />;
  return answer && !found ? <NotHere {...target} /> : <Loading />;
}

function Named({ id, source, target }: { id: string; source: string | undefined; target: Target }) {
  const { store, box } = target;
  const { tick } = useLive();
  const { answer, problem, again } = useLoad(
    (signal) => get<MessageDetail>(`v1/messages/${encodeURIComponent(id)}`, { store, box, source }, signal),
    JSON.stringify([store, box, id, source]),
    tick,
  );
  if (problem?.status === 404) return <NotHere {...target} />;
  return (
    <>
      {problem && <ProblemNotice problem={problem} again={again} />}
      {answer ? <Shown message={answer} target={target} again={again} /> : !problem && <Loading />}
    </>
  );
}

interface ShownProps {
  message: MessageDetail;
  target: Target;
  again: () => void;
}

function Shown({ message, target, again }: ShownProps) {
  return (
    <article class="message">
      <p class="crumbs">
        <a href={to("messages", { ...target })}>Messages</a> · <Name text={target.store} /> · {target.box}
      </p>
      <div class="bar">
        <h1>
          <Name text={message.topic ?? message.id} />
        </h1>
        <States deliveries={message.deliveries} />
        <OperationButtons message={message} target={target} again={again} />
      </div>
      <Facts message={message} target={target} />
      <div class="columns">
        <div>
          <section aria-labelledby="content-heading">
            <h2 id="content-heading">Content</h2>
            <Content message={message} target={target} />
          </section>
          {message.headers && (
            <section aria-labelledby="headers-heading">
              <h2 id="headers-heading">Headers</h2>
              <Headers text={message.headers} />
            </section>
          )}
          <section aria-labelledby="deliveries-heading">
            <h2 id="deliveries-heading">Deliveries</h2>
            {message.deliveries.length === 0 ? (
              <Empty title="No deliveries.">The message was only marked as seen.</Empty>
            ) : (
              <Table caption="Deliveries" columns={deliveryColumns} rows={message.deliveries} rowKey={(delivery) => delivery.handler} />
            )}
          </section>
        </div>
        <section aria-labelledby="timeline-heading">
          <h2 id="timeline-heading">Timeline</h2>
          <Timeline message={message} />
          {message.more_attempts && <p class="soft">Earlier failed attempts are not shown.</p>}
        </section>
      </div>
    </article>
  );
}

function States({ deliveries }: { deliveries: Delivery[] }) {
  const states = [...new Set(deliveries.map((delivery) => delivery.state))];
  return (
    <>
      {states.map((state) => (
        <State key={state} of={state} />
      ))}
    </>
  );
}

function OperationButtons({ message, target, again }: ShownProps) {
  const can = useCanOperate();
  const [acting, setActing] = useState<OperationDraft | null>(null);
  const [editing, setEditing] = useState<MessageDetail | null>(null);
  const verbs = verbsFor(message.deliveries.map((delivery) => delivery.state));
  if (!can || (verbs.length === 0 && !acting && !editing)) return null;
  const operate = (verb: Verb) => {
    const wanted = (delivery: Delivery) => verbsFor([delivery.state]).includes(verb);
    const deliveries = message.deliveries.filter(wanted).map(({ number, handler }) => ({ number, handler }));
    const scope: OperationScope = { deliveries };
    setActing({ verb, target, scope, about: deliveries.length > 1 ? plural(deliveries.length, "delivery", "deliveries") : "this message" });
  };
  const held = message.deliveries.some((delivery) => delivery.state === "leased");
  return (
    <p class="buttons end">
      {verbs.map((verb) => (
        <button key={verb} type="button" onClick={() => operate(verb)}>
          {verb[0]!.toUpperCase() + verb.slice(1)}…
        </button>
      ))}
      {verbs.length > 0 && (
        <button type="button" disabled={held} title={held ? "A worker holds it" : ""} onClick={() => setEditing(message)}>
          Edit…
        </button>
      )}
      {acting && (
        <OperationDialog
          request={acting}
          onClose={() => {
            setActing(null);
            again();
          }}
        />
      )}
      {editing && (
        <EditDialog
          message={editing}
          target={target}
          onClose={() => {
            setEditing(null);
            again();
          }}
        />
      )}
    </p>
  );
}

const mostCounted = 1000;

function holdText({ waiting, requeued }: HeldKey) {
  const behind = `${waiting === mostCounted ? "at least " : ""}${plural(waiting, "message waits", "messages wait")} behind it`;
  return requeued ? `${behind} until it is done` : `${behind}: requeue or discard it`;
}

function Facts({ message, target }: { message: MessageDetail; target: Target }) {
  const { correlation_id: correlation, trace_id: trace, trace_link: link } = message;
  return (
    <dl class="facts">
      <Fact name="Id" text={message.id} />
      {message.source !== unnamed && <Fact name="Source" text={message.source} />}
      {correlation && (
        <div>
          <dt>Correlation id</dt>
          <dd>
            <a href={to("messages", { ...target, correlation_id: correlation })}>
              <Name text={correlation} />
            </a>
          </dd>
        </div>
      )}
      {message.partition_key && <Fact name="Partition key" text={message.partition_key} />}
      {message.held_keys.map((held) => (
        <Fact key={held.handler} name="Blocks its key" text={holdText(held)} />
      ))}
      {message.blocked_keys.map(({ handler, waiting }) => (
        <Fact
          key={handler}
          name="Blocks its key until due"
          text={`${plural(waiting, "message")} behind this due time; postpone it to an earlier time or discard it`}
        />
      ))}
      {trace && (
        <div>
          <dt>Trace</dt>
          <dd class="code">
            {link && /^https?:/.test(link) ? (
              <a href={link} target="_blank" rel="noreferrer">
                {trace}
              </a>
            ) : (
              trace
            )}
          </dd>
        </div>
      )}
      <div>
        <dt>Created</dt>
        <dd>
          <When at={message.created_at} exact />
        </dd>
      </div>
      {message.due_at && (
        <div>
          <dt>Due</dt>
          <dd>
            <When at={message.due_at} exact />
          </dd>
        </div>
      )}
      {message.expires_at && (
        <div>
          <dt>Expires</dt>
          <dd>
            <When at={message.expires_at} exact />
          </dd>
        </div>
      )}
      {message.seen_count > 1 && (
        <div>
          <dt>Arrived</dt>
          <dd>
            {count(message.seen_count)} times, last <When at={message.last_seen_at} />
          </dd>
        </div>
      )}
      {message.content_type && <Fact name="Content type" text={message.content_type} />}
      <div>
        <dt>Size</dt>
        <dd>{bytes(message.payload_size ?? message.size)}</dd>
      </div>
      {message.content_version > 1 && (
        <div>
          <dt>Version</dt>
          <dd>{count(message.content_version)}, edited</dd>
        </div>
      )}
    </dl>
  );
}

function Fact({ name, text }: { name: string; text: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <Long text={text} limit={200} />
      </dd>
    </div>
  );
}

const deliveryColumns: Column<Delivery>[] = [
  {
    name: "handler",
    title: "Handler",
    head: true,
    cell: (delivery) => (delivery.handler ? <Name text={delivery.handler} /> : <span class="soft">by topic</span>),
  },
  { name: "state", title: "State", cell: (delivery) => <State of={delivery.state} /> },
  { name: "attempts", title: "Tries", number: true, cell: (delivery) => count(delivery.attempts) },
  { name: "expiries", title: "Expired leases", number: true, cell: (delivery) => count(delivery.expiries) },
  { name: "requeues", title: "Requeued", number: true, cell: (delivery) => count(delivery.requeues) },
  {
    name: "when",
    title: "When",
    cell: (delivery) => {
      const [word, at] = whenOf(delivery);
      return at ? (
        <>
          {word} <When at={at} />
        </>
      ) : (
        "–"
      );
    },
  },
  { name: "reason", title: "Reason", cell: (delivery) => (delivery.reason ? <Long text={delivery.reason} limit={140} /> : "–") },
];

function whenOf(delivery: Delivery): [string, string | null] {
  if (delivery.finished_at) return [delivery.state, delivery.finished_at];
  if (delivery.lease_until) return ["leased until", delivery.lease_until];
  return ["due", delivery.visible_at];
}
