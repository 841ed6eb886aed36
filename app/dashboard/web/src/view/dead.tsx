// Dead letters grouped by topic, handler and error.
import { useState } from "preact/hooks";
import { get } from "../api/client";
import type { Group, Groups, Verb } from "../api/types";
import { count, plural } from "../format";
import { useLive } from "../live";
import { useLoad } from "../load";
import { OperationDialog, type OperationDraft } from "../part/operation_dialog";
import { Empty, Loading, ProblemNotice } from "../part/notice";
import { Long, Name } from "../part/text";
import { When } from "../part/time";
import { to, type Parameters } from "../route";
import { useCanOperate } from "../session";
import { head, visibleText } from "../visible";

/** The initial number of groups; more are loaded on demand, up to the daemon's limit. */
const pageSize = 100;
const most = 1000;

export function Dead({ parameters }: { parameters: Parameters }) {
  const { tick } = useLive();
  const { store, box, topic } = parameters;
  const [shown, setShown] = useState(pageSize);
  const groups = useLoad(
    (signal) => get<Groups>("v1/dead_letter_groups", { store, box, topic, limit: shown }, signal),
    JSON.stringify([store, box, topic, shown]),
    tick,
  );
  const [acting, setActing] = useState<OperationDraft | null>(null);
  const found = groups.answer?.groups ?? [];
  const other = groups.answer?.other ?? 0;
  const total = found.reduce((sum, group) => sum + group.count, other);
  return (
    <>
      <div class="bar">
        <h1>Dead letters</h1>
        {found.length > 0 && (
          <p class="soft">
            {plural(total, "message")} in {other > 0 && "more than "}
            {plural(found.length, "group")}
          </p>
        )}
      </div>
      <Narrowed parameters={parameters} />
      {groups.problem && <ProblemNotice problem={groups.problem} again={groups.again} />}
      {!groups.answer && !groups.problem && <Loading />}
      {groups.answer && found.length === 0 && <Empty title="No dead letters.">No problems.</Empty>}
      <ul class="groups">
        {found.map((group) => (
          <GroupCard key={JSON.stringify([group.store, group.box, group.topic, group.handler, group.error])} group={group} onOperate={setActing} />
        ))}
      </ul>
      {other > 0 && <p class="soft">{plural(other, "dead letter")} in other groups</p>}
      {other > 0 && found.length === shown && shown < most && (
        <button type="button" onClick={() => setShown(Math.min(most, 2 * shown))}>
          Show more groups
        </button>
      )}
      {acting && (
        <OperationDialog
          request={acting}
          onClose={() => {
            setActing(null);
            groups.again();
          }}
        />
      )}
    </>
  );
}

function Narrowed({ parameters: { store, box, topic } }: { parameters: Parameters }) {
  if (!store && !box && !topic) return null;
  return (
    <p class="narrowed">
      Only {topic && <Name text={topic} />} {box && `the ${box}`} {store && <>of <Name text={store} /></>}.{" "}
      <a href={to("dead")}>Show all</a>
    </p>
  );
}

/** The longest part of a normalised error that every original contains. */
function sharedPart(error: string): string {
  const parts = error.split(/'…'|#/).map((part) => part.trim());
  const longest = parts.reduce((best, part) => (part.length > best.length ? part : best), "");
  return longest.length >= 4 ? longest : "";
}

function GroupCard({ group, onOperate }: { group: Group; onOperate: (request: OperationDraft) => void }) {
  const can = useCanOperate();
  const { store, box, topic, handler, error } = group;
  const operate = (verb: Verb) =>
    onOperate({
      verb,
      target: { store, box },
      scope: { group: { topic, handler, error } },
      about: plural(group.count, "dead letter"),
    });
  const list = to("messages", { store, box, state: "dead", topic, handler, error_contains: sharedPart(error) });
  return (
    <li class="group">
      <p class="count">
        <b>{count(group.count)}</b> <span class="soft">dead</span>
      </p>
      <div class="what">
        <h2>
          <Name text={topic} />
          {handler && (
            <span class="soft">
              {" → "}
              <Name text={handler} />
            </span>
          )}
        </h2>
        <p class="error">{error ? <Long text={error} limit={300} /> : <span class="soft">no error recorded</span>}</p>
        <p class="soft facts">
          <span>
            <Name text={store} /> · {box}
          </span>
          <span>
            last <When at={group.last_at} />
          </span>
          <span>
            first <When at={group.first_at} />
          </span>
        </p>
      </div>
      <p class="buttons">
        <a class="button small" href={list}>
          Show messages<span class="unseen"> of {visibleText(head(topic, 80))}</span>
        </a>
        {can && (
          <>
            <button type="button" class="small" onClick={() => operate("requeue")}>
              Requeue…
            </button>
            <button type="button" class="small" onClick={() => operate("discard")}>
              Discard…
            </button>
          </>
        )}
      </p>
    </li>
  );
}
