// Operations. Each has its own id, so a repeated request changes nothing twice.
import { get, post, Problem } from "./api/client";
import type { BoxName, Changed, Operation, OperationScope, Verb } from "./api/types";

/** Milliseconds without progress, after which the daemon has probably lost its store. */
const stallTimeout = 60_000;

export interface Target {
  store: string;
  box: BoxName;
}

export interface OperationRequest {
  verb: Verb;
  target: Target;
  scope: OperationScope;
  reason: string;
  delay?: string;
  until?: string;
  limit?: number;
}

/** A UUID. crypto.randomUUID exists only over HTTPS and on localhost. */
export function newOperationId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function body(order: OperationRequest): Record<string, unknown> {
  const { target, scope, reason, delay, until, limit } = order;
  return {
    ...target,
    ...scope,
    ...(reason && { reason }),
    ...(delay && { delay }),
    ...(until && { until }),
    ...(limit && { limit }),
  };
}

/** The number of messages that would change. */
export async function countAffected(order: OperationRequest): Promise<number> {
  const asked = { ...order, reason: order.reason || "how many?" };
  return (await post<Changed>(`v1/messages/${order.verb}`, { ...body(asked), dry_run: true })).changed;
}

/** Runs the operation and follows its progress in the background until it has finished. */
export async function perform(order: OperationRequest, id: string, progress: (changed: number) => void): Promise<number> {
  const answer = await post<Changed>(`v1/messages/${order.verb}`, { ...body(order), operation_id: id });
  if (answer.finished !== false) return answer.changed;
  let reached = answer.changed;
  let moved = Date.now();
  while (Date.now() - moved < stallTimeout) {
    progress(reached);
    await new Promise((resume) => setTimeout(resume, 500));
    const now = await operationOf(id, order.target);
    if (!now) continue;
    if (now.finished) return now.changed;
    if (now.changed !== reached) moved = Date.now();
    reached = now.changed;
  }
  throw new Problem(504, `No progress after ${reached} messages. Retry to continue from there; nothing is changed twice.`);
}

/** Null: the store is busy and has not recorded the operation yet. */
async function operationOf(id: string, target: Target): Promise<Operation | null> {
  try {
    return await get<Operation>(`v1/operations/${encodeURIComponent(id)}`, { ...target });
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}
