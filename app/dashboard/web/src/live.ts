// The overview as it changes: by server-sent events, and by asking where those do not come through.
import { useEffect, useState } from "preact/hooks";
import { get, Problem } from "./api/client";
import type { Overview } from "./api/types";

export interface Live {
  overview: Overview | null;
  /** Counts what came; views that show a first page load again. */
  tick: number;
  /** How the numbers come. */
  by: "events" | "polling" | "none";
  /** Since when nothing comes; null while all is well. */
  staleSince: Date | null;
  problem: Problem | null;
}

/** The daemon sends a comment every 15 s, which the browser does not tell us of; asking finds out. */
const askEvery = 10_000;
const askEveryWithoutEvents = 3_000;

class Connection {
  private state: Live = { overview: null, tick: 0, by: "none", staleSince: null, problem: null };
  private source: EventSource | null = null;
  private timer = 0;
  private lastUpdate = new Date();
  private readonly listeners = new Set<(state: Live) => void>();

  current = (): Live => this.state;

  listen(listener: (state: Live) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  start(): void {
    this.open();
    void this.ask();
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.refreshSoon(0);
    });
  }

  /** After an operation, or a login: what is there now? */
  refreshSoon(delay: number): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.ask(), delay);
  }

  restart(): void {
    this.source?.close();
    this.source = null;
    this.open();
    this.refreshSoon(0);
  }

  private open(): void {
    const source = new EventSource("v1/overview/stream");
    this.source = source;
    source.addEventListener("overview", (event) => this.news(JSON.parse(event.data as string) as Overview));
    source.onopen = () => this.change({ by: "events" });
    source.onerror = () => {
      if (this.source !== source) return;
      if (this.state.by === "events") this.change({ by: "none" });
      // The browser tries again by itself unless the answer was a refusal.
      if (source.readyState === EventSource.CLOSED) this.source = null;
      this.refreshSoon(0);
    };
  }

  private async ask(): Promise<void> {
    clearTimeout(this.timer);
    try {
      this.news(await get<Overview>("v1/overview"));
      if (!this.source) this.open();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(0, String(error));
      this.change({ problem, staleSince: this.state.staleSince ?? this.lastUpdate });
    }
    this.refreshSoon(this.state.by === "events" ? askEvery : askEveryWithoutEvents);
  }

  private news(overview: Overview): void {
    this.lastUpdate = new Date();
    const by = this.source?.readyState === EventSource.OPEN ? "events" : "polling";
    this.change({ overview, tick: this.state.tick + 1, by, staleSince: null, problem: null });
  }

  private change(part: Partial<Live>): void {
    this.state = { ...this.state, ...part };
    for (const listener of this.listeners) listener(this.state);
  }
}

export const connection = new Connection();

export function useLive(): Live {
  const [state, setState] = useState(connection.current);
  useEffect(() => {
    setState(connection.current());
    return connection.listen(setState);
  }, []);
  return state;
}
