// The current view, in the fragment of the address: #/messages?state=dead&topic=order.placed
import { useEffect, useState } from "preact/hooks";

export const views = ["overview", "stores", "messages", "message", "dead", "workers", "audit", "login"] as const;
export type View = (typeof views)[number];

export type Parameters = Record<string, string>;

export interface ViewLocation {
  view: View;
  parameters: Parameters;
}

export function parseViewLocation(fragment: string): ViewLocation {
  const text = fragment.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const name = cut < 0 ? text : text.slice(0, cut);
  const view = views.find((known) => known === name) ?? "overview";
  const parameters: Parameters = {};
  if (cut >= 0) {
    for (const [key, value] of new URLSearchParams(text.slice(cut + 1))) parameters[key] = value;
  }
  return { view, parameters };
}

/** The address of a view, for links; empty parameters are left out. */
export function to(view: View, parameters: Record<string, string | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value) query.set(key, value);
  }
  const text = query.toString();
  return "#/" + (view === "overview" ? "" : view) + (text ? "?" + text : "");
}

export function go(fragment: string): void {
  location.hash = fragment;
}

/** Changes the address without a history entry: for switches within a view. */
export function replace(fragment: string): void {
  history.replaceState(null, "", fragment);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useViewLocation(): ViewLocation {
  const [place, setViewLocation] = useState(() => parseViewLocation(location.hash));
  useEffect(() => {
    const follow = () => setViewLocation(parseViewLocation(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return place;
}
