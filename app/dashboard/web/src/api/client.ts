// Requests to the daemon that served this page. Addresses are relative, so a proxy may serve the page under a path.

/** A failed request with the daemon's detail text. Status 0: no response. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

type Query = Record<string, string | number | null | undefined>;

export function address(path: string, query: Query = {}): string {
  const parts = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return path + (parts.length > 0 ? "?" + parts.join("&") : "");
}

async function problem(response: Response): Promise<Problem> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as { detail?: string; title?: string };
    return new Problem(response.status, body.detail || body.title || response.statusText);
  } catch {
    return new Problem(response.status, text.slice(0, 500) || `the daemon returned ${response.status}`);
  }
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "The daemon does not respond");
  }
  if (!response.ok) throw await problem(response);
  return response;
}

export async function get<Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer> {
  const response = await ask(address(path, query), signal ? { signal } : {});
  return (await response.json()) as Answer;
}

export async function post<Answer>(path: string, body: unknown = {}): Promise<Answer> {
  const response = await ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return (response.status === 204 ? undefined : await response.json()) as Answer;
}
