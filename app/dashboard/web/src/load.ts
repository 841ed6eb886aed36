// Loads and reloads data for a view.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api/client";

export interface Loaded<Answer> {
  answer: Answer | null;
  problem: Problem | null;
  again: () => void;
}

interface State<Answer> {
  key: string;
  answer: Answer | null;
  problem: Problem | null;
}

/**
 * Loads when `key` changes, and in the background when `tick` changes: the old data stays until the new response or
 * a problem arrives. Responses to outdated requests are dropped.
 */
export function useLoad<Answer>(
  load: (signal: AbortSignal) => Promise<Answer>,
  key: string,
  tick: number | null = null,
): Loaded<Answer> {
  const [state, setState] = useState<State<Answer>>({ key, answer: null, problem: null });
  const [turn, setTurn] = useState(0);
  const inFlight = useRef<AbortController | null>(null);
  const missed = useRef(false);
  const latest = useRef(load);
  latest.current = load;

  const start = () => {
    inFlight.current?.abort();
    const control = new AbortController();
    inFlight.current = control;
    const end = (change: (before: State<Answer>) => State<Answer>) => {
      if (inFlight.current !== control) return;
      inFlight.current = null;
      setState(change);
      if (missed.current) start();
    };
    missed.current = false;
    latest.current(control.signal).then(
      (answer) => end(() => ({ key, answer, problem: null })),
      (error: unknown) => {
        const problem = error instanceof Problem ? error : new Problem(0, String(error));
        end((before) => ({ key, answer: before.key === key ? before.answer : null, problem }));
      },
    );
  };

  useEffect(() => {
    start();
    return () => {
      inFlight.current?.abort();
      inFlight.current = null;
    };
  }, [key, turn]);

  useEffect(() => {
    if (inFlight.current) missed.current = tick !== null;
    else start();
  }, [tick]);

  const again = useCallback(() => setTurn((value) => value + 1), []);
  const current = state.key === key;
  return { answer: current ? state.answer : null, problem: current ? state.problem : null, again };
}
