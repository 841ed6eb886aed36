// The daemon's responses. Times are RFC 3339 strings in UTC.

export type BoxName = "outbox" | "inbox";
export type Status = "healthy" | "degraded" | "unhealthy";
export type DeliveryState =
  | "ready"
  | "scheduled"
  | "leased"
  | "waiting"
  | "done"
  | "dead"
  | "discarded"
  | "marked"
  | "seen";

export interface Me {
  version: string;
  actor: string | null;
  role: "admin" | "operate" | "read" | "send" | null;
  can: { read: boolean; operate: boolean };
}

export interface Counts {
  ready: number;
  scheduled: number;
  leased: number;
  waiting: number;
  dead: number;
  oldest_pending_seconds: number | null;
  /** Age of the oldest open message, including postponed ones. */
  oldest_open_seconds: number | null;
}

/** Without store and box: everywhere. */
export interface Reason {
  store: string | null;
  box: BoxName | null;
  about: "store" | "dead" | "key" | "pending" | "pause" | "topic" | "route";
  status: Status;
  text: string;
}

export interface BoxOverview {
  box: BoxName;
  counts: Counts;
  open: number;
  done_per_minute: number | null;
  failed_per_minute: number | null;
  p50_ms: number | null;
  p99_ms: number | null;
}

export interface Overview {
  at: string | null;
  status: Status;
  reasons: Reason[];
  stores: number;
  unreachable: number;
  boxes: BoxOverview[];
}

export type Span = "15m" | "1h" | "24h";
export type Series = (number | null)[];

export interface History {
  box: BoxName;
  span: Span;
  step_seconds: number;
  at: number[];
  done: Series;
  failed: Series;
  open: Series;
  dead: Series;
  oldest_seconds: Series;
  p50_ms: Series;
  p99_ms: Series;
}

export interface TopicCounts extends Counts {
  done_per_minute: number | null;
  error_rate: number | null;
  paused: boolean;
}

export interface StoreBox {
  box: BoxName;
  at?: string | null;
  status?: Status;
  paused?: boolean;
  counts?: Counts;
  done_per_minute?: number | null;
  error_rate?: number | null;
  topics?: Record<string, TopicCounts>;
  /** All further topics together. */
  other_topics?: { topics: number; counts: Counts } | null;
  error?: string;
}

export interface StoreView {
  name: string;
  dialect: string;
  boxes: StoreBox[];
  error?: string;
}

export interface StoresPage {
  stores: StoreView[];
  /** The cursor of the next page. */
  next: string | null;
}

export interface Delivery {
  number: number;
  handler: string;
  delivery_id: string | null;
  state: DeliveryState;
  attempts: number;
  expiries: number;
  requeues: number;
  visible_at: string | null;
  lease_until: string | null;
  finished_at: string | null;
  reason: string;
  last_error: string;
}

export interface MessageHead {
  number: number;
  id: string;
  source: string;
  topic: string | null;
  correlation_id: string | null;
  partition_key: string | null;
  content_type: string | null;
  created_at: string;
  last_seen_at: string;
  due_at: string | null;
  expires_at: string | null;
  seen_count: number;
  content_version: number;
  size: number;
}

export interface MessageEntry extends MessageHead {
  delivery: Delivery;
}

export interface Attempt {
  failed_at: string;
  handler: string;
  attempt: number;
  error: string;
  worker?: string | null;
}

/** A partition key that is blocked until the message is requeued and done, or discarded. */
export interface HeldKey {
  handler: string;
  partition_key: string;
  requeued: boolean;
  waiting: number;
}

/** A partition key that waits for this message, which has a distant due time. */
export interface BlockedKey {
  handler: string;
  partition_key: string;
  due_at: string;
  waiting: number;
}

export interface MessageDetail extends MessageHead {
  payload: string;
  payload_encoding: "utf-8" | "base64";
  payload_size?: number;
  payload_truncated?: boolean;
  redacted?: string[];
  trace_id?: string | null;
  trace_link?: string | null;
  headers: string | null;
  hash: { algorithm: string; hex: string } | null;
  deliveries: Delivery[];
  timeline: Attempt[];
  held_keys: HeldKey[];
  blocked_keys: BlockedKey[];
  more_attempts: boolean;
}

export interface MessagePage {
  messages: MessageEntry[];
  next: string | null;
}

export interface Group {
  store: string;
  box: BoxName;
  topic: string;
  handler: string;
  error: string;
  count: number;
  first_at: string;
  last_at: string;
}

export interface Groups {
  at: string | null;
  groups: Group[];
  /** Dead letters in none of these groups. */
  other: number;
}

export type FilterField =
  | "state"
  | "topic"
  | "handler"
  | "source"
  | "id"
  | "correlation_id"
  | "error_contains"
  | "created_since"
  | "created_before";
export type Filter = Partial<Record<FilterField, string>>;

export interface DeliveryKey {
  number: number;
  handler: string;
}

/** The target of an operation: exactly one of the three. */
export type OperationScope =
  | { deliveries: DeliveryKey[] }
  | { filter: Filter }
  | { group: Pick<Group, "topic" | "handler" | "error"> };

export type Verb = "requeue" | "discard" | "postpone";

export interface Changed {
  operation_id?: string | null;
  changed: number;
  finished?: boolean;
  dry_run: boolean;
}

export interface Operation {
  operation_id: string;
  action: string;
  actor: string;
  reason: string;
  started_at: string;
  at: string;
  changed: number;
  finished: boolean;
}

export interface AuditEntry {
  id: number;
  at: string;
  action: string;
  actor: string;
  reason: string;
  number: number | null;
  affected: number;
  operation_id: string | null;
  finished: boolean;
}

export interface AuditPage {
  entries: AuditEntry[];
  next: string | null;
}

/** A worker known only by its leases sends no heartbeat: it is older, or has stopped. */
export interface Worker {
  store: string;
  box: BoxName;
  owner: string;
  name: string | null;
  version: string | null;
  started_at: string | null;
  seen_at: string | null;
  leases: number;
  done: number | null;
  failed: number | null;
}

export interface NamedLease {
  store: string;
  box: BoxName;
  name: string;
  owner: string;
  until: string;
}

export interface Chore {
  store: string;
  box: BoxName;
  chore: string;
  last_at: string;
  rows: number;
  end: string;
  error: string | null;
}

export interface Workers {
  workers: Worker[];
  leases: NamedLease[];
  housekeeping: Chore[];
  /** The number of omitted rows. */
  other: { workers: number; leases: number; housekeeping: number };
}

export interface Route {
  name: string;
  box: BoxName;
  topic: string;
  enabled: boolean;
  reason: string;
  done: number;
  retried: number;
  dead: number;
  postponed: number;
}

export interface Dispatch {
  paused: boolean;
  paused_stores: string[];
  paused_topics: string[];
  routes: Route[];
}
