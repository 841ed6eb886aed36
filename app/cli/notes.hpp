// Notes that apply to every command, shown in the overview, the manual page and
// docs/reference/cli.md.
#pragma once

#include <array>
#include <utility>

namespace twinbox::cli {

using Note = std::pair<const char*, const char*>;

inline constexpr std::array<Note, 9> exit_notes = {{
    {"0", "success"},
    {"1",
     "a negative answer: nothing found, a finding, degraded health, or a declined confirmation"},
    {"2", "the command line or the configuration is invalid"},
    {"3", "the database cannot be reached, or it rejected the request"},
    {"4", "the tables are missing, too old or too new"},
    {"5", "health: unhealthy"},
    {"6", "the daemon cannot be reached, or it rejected the request"},
    {"7", "any other error"},
    {"130", "interrupted by Ctrl-C between two batches; finished batches stay committed"},
}};

inline constexpr std::array<Note, 6> environment_notes = {{
    {"TWINBOX_CONFIG", "configuration file, used without --config"},
    {"TWINBOX_DATABASE",
     "address of the database, used without --database, --store and --config; may contain a "
     "password. serve ignores it and takes its stores from the configuration or from "
     "TWINBOX_STORE_MAIN_URL"},
    {"TWINBOX_TOKEN", "token for the commands that call the daemon"},
    {"PGPASSWORD, PGPASSFILE", "as in every PostgreSQL client"},
    {"NO_COLOR", "any value turns colours off"},
    {"VISUAL, EDITOR", "editor that edit opens"},
}};

inline constexpr std::array<Note, 18> json_notes = {{
    {"everywhere",
     "one JSON value on standard output; times are RFC 3339 in UTC (never is "
     "9999-12-31T23:59:59.999999Z, always is 0000-01-01T00:00:00.000000Z), durations are "
     "milliseconds in members ending in _ms, and a member that does not apply is null; notes and "
     "errors go to standard error as text"},
    {"enqueue", R"({"id", "duplicate", "conflict"})"},
    {"accept", R"({"state", "duplicate", "conflict"}; state is accepted, duplicate_open, )"
               R"(duplicate_done or duplicate_dead)"},
    {"status", R"({"store", "boxes": [{"box", "counts", "topics": {topic: counts}, )"
               R"("other_topics", "handlers": {key: counts}, "other_handlers"}]}; counts are )"
               R"({"ready", "scheduled", "leased", "waiting", "dead", "oldest_pending_ms", )"
               R"("oldest_open_ms"} and with --history also {"done", "discarded", "marked", )"
               R"("seen"}; the 200 largest topics and handlers are listed, the others are )"
               R"({"names", "counts"} or null)"},
    {"list", R"({"boxes": [{"box", "entries": [{"message", "delivery"}], "next"}]}; next goes to )"
             R"(--after; with --groups {"boxes": [{"box", "groups": [{"group", "count", "topic", )"
             R"("handler", "error", "first_at", "last_at"}], "other"}]}; other counts the dead )"
             R"(letters of smaller groups)"},
    {"show",
     R"({"box", "message", "payload", "payload_base64", "headers", "hash", "deliveries", )"
     R"("timeline", "more_attempts", "held_keys", "blocked_keys"}; payload is text, payload_base64 is there when it is not)"},
    {"audit",
     R"({"boxes": [{"box", "entries": [{"id", "action", "actor", "reason", "operation_id", )"
     R"("number", "affected", "started_at", "at", "finished"}], "next"}]})"},
    {"workers", R"({"boxes": [{"box", "workers": [{"owner", "leases", "name", "version", )"
                R"("started_at", "seen_at", "done", "failed"}], "leases": [{"name", "owner", )"
                R"("until"}]}]}; name is null for an owner of leases without heartbeats)"},
    {"requeue, postpone, discard, prune, reap",
     R"({"dry_run", "count", "boxes": [{"box", "count"}], "operation_id"}; the last if )"
     R"(the operation has an id)"},
    {"edit", R"({"box", "changed"})"},
    {"schema check", R"({"boxes": [{"box", "version", "known_version", "pending", "current"}]}; )"
                     R"(schema deploy: {"boxes": [{"box", "applied"}]})"},
    {"schema repair", R"({"boxes": [{"box", "sequences": [{"column", "reached", "used"}]}]})"},
    {"health", R"({"state", "boxes": [{"box", "state", "pending", "dead", "reasons"}]})"},
    {"doctor", R"({"findings": [{"box", "check", "level", "found", "fix"}]}; level is ok, )"
               R"(warning or error)"},
    {"config check", R"({"problems": [{"where", "key", "problem"}], "warnings": )"
                     R"([{"where", "key", "warning"}]})"},
    {"bench", R"({"store", "results": [{"name", "per_second", "p50_us", "p99_us"}]})"},
    {"token add", R"({"name", "role", "token", "file"}; token list: {"file", "tokens": )"
                  R"([{"name", "role"}]}; token revoke: {"name", "revoked", "file"})"},
    {"pause, resume", "the daemon's response, as for GET /v1/dispatch in docs/reference/daemon.md"},
}};

}  // namespace twinbox::cli
