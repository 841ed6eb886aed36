// Notices for empty views and problems.
import type { ComponentChildren } from "preact";
import type { Problem } from "../api/client";
import { to } from "../route";
import { Long } from "./text";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

export function Loading() {
  return (
    <p class="loading" role="status">
      Loading…
    </p>
  );
}

/** A problem and what to do about it. */
export function ProblemNotice({ problem, again }: { problem: Problem; again?: () => void }) {
  const login = problem.status === 401 || problem.status === 403;
  return (
    <div class="trouble" role="alert">
      <p class="title">{login ? "Not authorized" : problem.status === 0 ? "No response" : "Request failed"}</p>
      <p>
        <Long text={problem.message} />
      </p>
      <p class="buttons">
        {login && (
          <a class="button" href={to("login")}>
            Log in
          </a>
        )}
        {again && (
          <button type="button" onClick={again}>
            Retry
          </button>
        )}
      </p>
    </div>
  );
}
