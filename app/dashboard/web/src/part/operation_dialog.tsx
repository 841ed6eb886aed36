// The dialog before an operation: it counts the messages, asks for a reason, and shows the number on its button.
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../api/client";
import type { OperationScope, Verb } from "../api/types";
import { count, plural } from "../format";
import { connection } from "../live";
import { countAffected, newOperationId, perform, type OperationRequest, type Target } from "../operation";
import { Close, Dialog, ReasonField } from "./dialog";
import { ProblemNotice } from "./notice";
import { Name } from "./text";

export interface OperationDraft {
  verb: Verb;
  target: Target;
  scope: OperationScope;
  /** The target as text: "3 selected messages". */
  about: string;
}

interface Words {
  title: string;
  button: string;
  past: string;
  effect: string;
}

const words: Record<Verb, Words> = {
  requeue: {
    title: "Requeue",
    button: "Requeue",
    past: "requeued",
    effect: "They become ready with zero attempts and are delivered like new messages.",
  },
  postpone: {
    title: "Postpone",
    button: "Postpone",
    past: "postponed",
    effect: "They stay in the box and are not delivered before the time you choose.",
  },
  discard: {
    title: "Discard",
    button: "Discard",
    past: "discarded",
    effect: "They are never delivered. They stay in the history until they are pruned.",
  },
};

const delays = [
  ["5m", "5 minutes"],
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["6h", "6 hours"],
  ["24h", "1 day"],
] as const;

/** The option to enter a time instead of a delay. */
const chosenTime = "until";

/** The format of a datetime-local input: local time, to the minute. */
function inAnHour(): string {
  const time = new Date(Date.now() + 3_600_000);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

type Step =
  | { name: "counting" }
  | { name: "asking"; number: number }
  | { name: "running"; number: number; changed: number }
  | { name: "done"; changed: number }
  | { name: "failed"; problem: Problem; number: number | null };

const asProblem = (error: unknown) => (error instanceof Problem ? error : new Problem(0, String(error)));

export function OperationDialog({ request, onClose }: { request: OperationDraft; onClose: (acted: boolean) => void }) {
  const { verb, target, scope, about } = request;
  const word = words[verb];
  const [step, setStep] = useState<Step>({ name: "counting" });
  const [reason, setReason] = useState("");
  const [delay, setDelay] = useState(verb === "postpone" ? "15m" : "");
  const [until, setUntil] = useState(inAnHour);
  // One id while the dialog is open: a retry continues the same operation.
  const id = useRef(newOperationId());

  const when = () => (delay === chosenTime ? { until: new Date(until).toISOString() } : delay ? { delay } : {});
  const order = (): OperationRequest => ({ verb, target, scope, reason: reason.trim(), ...when() });

  const ask = () => {
    setStep({ name: "counting" });
    countAffected(order()).then(
      (number) => setStep({ name: "asking", number }),
      (error: unknown) => setStep({ name: "failed", problem: asProblem(error), number: null }),
    );
  };
  useEffect(ask, []);

  const run = (number: number) => {
    setStep({ name: "running", number, changed: 0 });
    // Never changes more messages than were confirmed.
    perform({ ...order(), limit: number }, id.current, (changed) => setStep({ name: "running", number, changed })).then(
      (changed) => {
        connection.refreshSoon(0);
        setStep({ name: "done", changed });
      },
      (error: unknown) => setStep({ name: "failed", problem: asProblem(error), number }),
    );
  };

  return (
    <Dialog title={`${word.title} ${about}`} onClose={() => onClose(step.name === "done")}>
      {step.name === "counting" && <p role="status">Counting…</p>}
      {step.name === "asking" && step.number === 0 && (
        <Nothing verb={verb} onClose={() => onClose(true)} />
      )}
      {step.name === "asking" && step.number > 0 && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            run(step.number);
          }}
        >
          <p>
            <strong>{plural(step.number, "message")}</strong> in the {target.box} of <Name text={target.store} />.{" "}
            {word.effect}
          </p>
          {verb !== "discard" && <Delay verb={verb} value={delay} onChange={setDelay} />}
          {delay === chosenTime && (
            <label class="field">
              Until
              <input
                type="datetime-local"
                value={until}
                required
                onInput={(event) => setUntil(event.currentTarget.value)}
              />
              <span class="hint">In your local time.</span>
            </label>
          )}
          <ReasonField value={reason} onChange={setReason} required={verb === "discard"}>
            <span class="hint">The audit keeps it with your name.</span>
          </ReasonField>
          <p class="buttons">
            <button type="submit" class={verb === "discard" ? "danger" : "primary"}>
              {word.button} {plural(step.number, "message")}
            </button>
            <button type="button" onClick={() => onClose(false)}>
              Cancel
            </button>
          </p>
        </form>
      )}
      {step.name === "running" && (
        <div role="status">
          <p>
            {count(step.changed)} of {count(step.number)}…
          </p>
          <progress max={step.number} value={step.changed} aria-label="Progress" />
        </div>
      )}
      {step.name === "done" && (
        <>
          <p role="status">
            <strong>
              {plural(step.changed, "message")} {word.past}.
            </strong>
          </p>
          <Close onClose={() => onClose(true)} primary />
        </>
      )}
      {step.name === "failed" && (
        <>
          <ProblemNotice problem={step.problem} again={() => (step.number === null ? ask() : run(step.number))} />
          <Close onClose={() => onClose(true)} />
        </>
      )}
    </Dialog>
  );
}

function Nothing({ verb, onClose }: { verb: Verb; onClose: () => void }) {
  return (
    <>
      <p role="status">
        Nothing left to {verb}: the messages were delivered or changed by another operation in the meantime.
      </p>
      <Close onClose={onClose} primary />
    </>
  );
}

function Delay({ verb, value, onChange }: { verb: Verb; value: string; onChange: (value: string) => void }) {
  return (
    <label class="field">
      {verb === "postpone" ? "For" : "When"}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {verb === "requeue" && <option value="">at once</option>}
        {delays.map(([delay, text]) => (
          <option key={delay} value={delay}>
            {verb === "requeue" ? `in ${text}` : text}
          </option>
        ))}
        {verb === "postpone" && <option value={chosenTime}>until a time…</option>}
      </select>
    </label>
  );
}
