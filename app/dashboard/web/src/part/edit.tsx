// Edits a message: change it, review the difference, save or requeue.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, post, Problem } from "../api/client";
import type { Changed, MessageDetail } from "../api/types";
import { compactJson, prettyJson } from "../content";
import { diff, type Line } from "../diff";
import { connection } from "../live";
import { newOperationId, type Target } from "../operation";
import { largest } from "./content";
import { Close, Dialog, ReasonField } from "./dialog";
import { Empty, ProblemNotice } from "./notice";
import { Long } from "./text";

interface Props {
  message: MessageDetail;
  target: Target;
  onClose: () => void;
}

const asProblem = (error: unknown) => (error instanceof Problem ? error : new Problem(0, String(error)));

export function EditDialog({ message, target, onClose }: Props) {
  const [whole, setWhole] = useState<MessageDetail | null>(message.payload_truncated ? null : message);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    if (whole) return;
    const path = `v1/messages/${encodeURIComponent(message.id)}`;
    get<MessageDetail>(path, { ...target, source: message.source, payload_limit: largest }).then(setWhole, (error) =>
      setProblem(asProblem(error)),
    );
  }, []);
  const impossible =
    whole && (whole.payload_truncated || whole.payload_encoding === "base64")
      ? "The dashboard edits only text of up to 1 MB. Edit this payload with the command line: twinbox edit --help"
      : null;
  return (
    <Dialog title="Edit this message" onClose={onClose} wide>
      {problem && <ProblemNotice problem={problem} />}
      {!whole && !problem && <p role="status">Loading…</p>}
      {impossible && <Empty title="Not editable here.">{impossible}</Empty>}
      {whole && !impossible ? (
        <Editor message={whole} target={target} onClose={onClose} />
      ) : (
        <Close onClose={onClose} />
      )}
    </Dialog>
  );
}

function Editor({ message, target, onClose }: Props) {
  const redacted = (message.redacted ?? []).length > 0;
  const pretty = useMemo(() => prettyJson(message.payload), [message.payload]);
  const before = pretty ?? message.payload;
  const [draft, setDraft] = useState(redacted ? "" : before);
  const [headers, setHeaders] = useState(message.headers ?? "");
  const [reason, setReason] = useState("");
  const dead = message.deliveries.some((delivery) => delivery.state === "dead");
  const [requeue, setRequeue] = useState(dead);
  const [review, setReview] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [done, setDone] = useState(false);
  const id = useRef(newOperationId());

  const contentChanged = redacted ? draft !== "" : draft !== before;
  const headersChanged = headers !== (message.headers ?? "");
  const mistake = pretty !== null && draft !== "" && prettyJson(draft) === null ? "This is not valid JSON, but the stored payload is." : null;
  // JSON that was indented for display is saved as compact as before.
  const payload = () => (pretty !== null && pretty !== message.payload && prettyJson(draft) ? compactJson(draft) : draft);

  const save = async () => {
    try {
      await post<Changed>("v1/messages/edit", {
        ...target,
        number: message.number,
        content_version: message.content_version,
        ...(contentChanged && { payload: payload() }),
        ...(headersChanged && { headers }),
        ...(dead && { requeue }),
        ...(reason.trim() && { reason: reason.trim() }),
        operation_id: id.current,
      });
      connection.refreshSoon(0);
      setDone(true);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };

  if (done) {
    return (
      <>
        <p role="status">
          <strong>Saved{dead && requeue ? ", and requeued" : ""}.</strong> The audit keeps the previous content.
        </p>
        <Close onClose={onClose} primary />
      </>
    );
  }
  if (review) {
    return (
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {contentChanged && <Difference title="Content" before={before} after={draft} />}
        {headersChanged && <Difference title="Headers" before={message.headers ?? ""} after={headers} />}
        <ReasonField value={reason} onChange={setReason} />
        {dead && (
          <label class="check">
            <input type="checkbox" checked={requeue} onChange={() => setRequeue(!requeue)} /> Requeue at once
          </label>
        )}
        {problem && <ProblemNotice problem={problem} />}
        <p class="buttons">
          <button type="submit" class="primary">
            {dead && requeue ? "Save and requeue" : "Save"}
          </button>
          <button type="button" onClick={() => setReview(false)}>
            Back
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </p>
      </form>
    );
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        setReview(true);
      }}
    >
      {redacted && (
        <p class="hint">Parts of the payload are hidden, so you can only replace the whole payload.</p>
      )}
      <label class="field">
        Content
        <textarea rows={12} spellcheck={false} value={draft} onInput={(event) => setDraft(event.currentTarget.value)} />
      </label>
      {mistake && <p class="mistake">{mistake}</p>}
      <label class="field">
        <span>
          Headers <span class="soft">(a JSON object)</span>
        </span>
        <textarea rows={3} spellcheck={false} value={headers} onInput={(event) => setHeaders(event.currentTarget.value)} />
      </label>
      <p class="buttons">
        <button type="submit" class="primary" disabled={!contentChanged && !headersChanged}>
          Review the change
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </p>
    </form>
  );
}

const sign = { same: " ", removed: "−", added: "+" };

/** Unchanged lines are shown only next to changed ones. */
const around = 3;

function Difference({ title, before, after }: { title: string; before: string; after: string }) {
  const lines = useMemo(() => near(diff(before, after)), [before, after]);
  return (
    <section class="diff" aria-label={`Difference: ${title}`}>
      <h3>{title}</h3>
      <div class="lines" tabIndex={0}>
        {lines.map((line, index) =>
          line === null ? (
            <div key={index} class="gap">
              ⋯
            </div>
          ) : (
            <div key={index} class={line.kind}>
              <span aria-hidden="true">{sign[line.kind]}</span>
              <span class="unseen">{line.kind === "same" ? "" : line.kind + ": "}</span>
              <Long text={line.text} limit={400} />
            </div>
          ),
        )}
      </div>
    </section>
  );
}

function near(lines: Line[]): (Line | null)[] {
  const keep = lines.map((_, index) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some((line) => line.kind !== "same"),
  );
  const shown: (Line | null)[] = [];
  lines.forEach((line, index) => {
    if (keep[index]) shown.push(line);
    else if (shown.length === 0 || shown[shown.length - 1] !== null) shown.push(null);
  });
  return shown;
}
