// One message: what it says, what became of it, and what can be done.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client";
import type { Duty, HeldKey, MessageDetail, MessagePage, Scope, Verb } from "../api/types";
import { bytes, count, plural } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import type { Target } from "../operation";
import { ActDialog, type ActRequest } from "../part/act";
import { Content, Headers } from "../part/content";
import { EditDialog } from "../part/edit";
import { Empty, Loading, Trouble } from "../part/notice";
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
      <Empty title="It is not here.">
        It was never in this box, or it was pruned. <a href={to("messages", { store, box })}>Show what is</a>
      </Empty>
    </>
  );
}

/** As the audit knows it: finds its id, and goes there. */
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
  if (problem) return <Trouble problem={problem} again={again} />;
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
      {problem && <Trouble problem={problem} again={again} />}
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
        <States duties={message.duties} />
        <Acts message={message} target={target} again={again} />
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
          <section aria-labelledby="duties-heading">
            <h2 id="duties-heading">Duties</h2>
            {message.duties.length === 0 ? (
              <Empty title="No duties.">The message was only seen.</Empty>
            ) : (
              <Table caption="Duties" columns={dutyColumns} rows={message.duties} rowKey={(duty) => duty.handler} />
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

function States({ duties }: { duties: Duty[] }) {
  const states = [...new Set(duties.map((duty) => duty.state))];
  return (
    <>
      {states.map((state) => (
        <State key={state} of={state} />
      ))}
    </>
  );
}

function Acts({ message, target, again }: ShownProps) {
  const can = useCanOperate();
  const [acting, setActing] = useState<ActRequest | null>(null);
  const [editing, setEditing] = useState<MessageDetail | null>(null);
  const verbs = verbsFor(message.duties.map((duty) => duty.state));
  if (!can || (verbs.length === 0 && !acting && !editing)) return null;
  const act = (verb: Verb) => {
    const wanted = (duty: Duty) => verbsFor([duty.state]).includes(verb);
    const duties = message.duties.filter(wanted).map(({ number, handler }) => ({ number, handler }));
    const scope: Scope = { duties };
    setActing({ verb, target, scope, about: duties.length > 1 ? plural(duties.length, "duty", "duties") : "this message" });
  };
  const held = message.duties.some((duty) => duty.state === "leased");
  return (
    <p class="buttons end">
      {verbs.map((verb) => (
        <button key={verb} type="button" onClick={() => act(verb)}>
          {verb[0]!.toUpperCase() + verb.slice(1)}…
        </button>
      ))}
      {verbs.length > 0 && (
        <button type="button" disabled={held} title={held ? "Somebody works on it" : ""} onClick={() => setEditing(message)}>
          Edit…
        </button>
      )}
      {acting && (
        <ActDialog
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
        <Fact key={held.handler} name="Holds its key" text={holdText(held)} />
      ))}
      {message.blocked_keys.map(({ handler, waiting }) => (
        <Fact
          key={handler}
          name="Key waits for it"
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

const dutyColumns: Column<Duty>[] = [
  {
    name: "handler",
    title: "Handler",
    head: true,
    cell: (duty) => (duty.handler ? <Name text={duty.handler} /> : <span class="soft">by topic</span>),
  },
  { name: "state", title: "State", cell: (duty) => <State of={duty.state} /> },
  { name: "attempts", title: "Tries", number: true, cell: (duty) => count(duty.attempts) },
  { name: "expiries", title: "Leases lost", number: true, cell: (duty) => count(duty.expiries) },
  { name: "requeues", title: "Requeued", number: true, cell: (duty) => count(duty.requeues) },
  {
    name: "when",
    title: "When",
    cell: (duty) => {
      const [word, at] = whenOf(duty);
      return at ? (
        <>
          {word} <When at={at} />
        </>
      ) : (
        "–"
      );
    },
  },
  { name: "reason", title: "Reason", cell: (duty) => (duty.reason ? <Long text={duty.reason} limit={140} /> : "–") },
];

function whenOf(duty: Duty): [string, string | null] {
  if (duty.finished_at) return [duty.state, duty.finished_at];
  if (duty.lease_until) return ["leased until", duty.lease_until];
  return ["due", duty.visible_at];
}
