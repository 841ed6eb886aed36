// The filter form of the message list.
import { useEffect, useState } from "preact/hooks";
import type { BoxName, Filter, FilterField } from "../api/types";
import { StoreChoice, type Stored } from "./store_choice";

const states = ["any", "open", "ready", "scheduled", "leased", "waiting", "dead", "done", "discarded", "marked", "seen"];

const texts: [FilterField, string][] = [
  ["topic", "Topic"],
  ["id", "Message id"],
  ["error_contains", "Error contains"],
  ["handler", "Handler"],
  ["source", "Source"],
  ["correlation_id", "Correlation id"],
];

const times: [FilterField, string][] = [
  ["created_since", "Created at or after"],
  ["created_before", "Created before"],
];

export const filterFields: FilterField[] = ["state", ...texts.map(([name]) => name), ...times.map(([name]) => name)];

/** Fields that are hidden until requested or used. */
const seldom: FilterField[] = ["handler", "source", "correlation_id", "created_since", "created_before"];

/** Converts to the format of the local time input, and back. */
function localInput(at: string | undefined): string {
  if (!at) return "";
  const time = new Date(at);
  if (Number.isNaN(time.getTime())) return "";
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function fromLocalInput(text: string): string {
  return text ? new Date(text).toISOString() : "";
}

interface Props {
  at: Stored;
  filter: Filter;
  onApply: (parameters: Record<string, string>) => void;
}

export function FilterForm({ at, filter, onApply }: Props) {
  const [draft, setDraft] = useState<Filter>(filter);
  const known = JSON.stringify(filter);
  useEffect(() => setDraft(filter), [known]);
  const [more, setMore] = useState(false);
  const shown = (name: FilterField) => more || !seldom.includes(name) || !!filter[name];
  const set = (name: FilterField, value: string) => setDraft((before) => ({ ...before, [name]: value }));
  const apply = (store: string, box: BoxName, next: Filter) => onApply({ store, box, ...next });
  const used = Object.keys(filter).length > 0;
  return (
    <form
      class="filter"
      role="search"
      aria-label="Messages"
      onSubmit={(event) => {
        event.preventDefault();
        apply(at.store, at.box, draft);
      }}
    >
      <StoreChoice at={at} onChange={(store, box) => apply(store, box, draft)} />
      <label class="field">
        State
        <select
          value={draft.state ?? "any"}
          onChange={(event) => {
            const state = event.currentTarget.value === "any" ? "" : event.currentTarget.value;
            apply(at.store, at.box, { ...draft, state });
          }}
        >
          {states.map((state) => (
            <option key={state}>{state}</option>
          ))}
        </select>
      </label>
      {texts
        .filter(([name]) => shown(name))
        .map(([name, title]) => (
          <label key={name} class="field">
            {title}
            <input
              type="text"
              spellcheck={false}
              autocomplete="off"
              value={draft[name] ?? ""}
              onInput={(event) => set(name, event.currentTarget.value)}
            />
          </label>
        ))}
      {times
        .filter(([name]) => shown(name))
        .map(([name, title]) => (
          <label key={name} class="field">
            {title}
            <input
              type="datetime-local"
              step="1"
              value={localInput(draft[name])}
              onChange={(event) => set(name, fromLocalInput(event.currentTarget.value))}
            />
          </label>
        ))}
      <p class="buttons">
        <button type="submit" class="primary">
          Filter
        </button>
        {!more && (
          <button type="button" class="quiet" onClick={() => setMore(true)}>
            More fields
          </button>
        )}
        {used && (
          <button type="button" class="quiet" onClick={() => apply(at.store, at.box, {})}>
            Clear
          </button>
        )}
      </p>
    </form>
  );
}
