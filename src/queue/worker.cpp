#include "queue/box.hpp"
#include "twinbox/health.hpp"

namespace twinbox {

std::vector<Worker> Workers::list(std::int64_t limit) {
  require_limit(limit);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    std::vector<Worker> workers;
    box.run(session, box.sql().worker_list, {{"limit", limit}}, [&](const Row& row) {
      workers.push_back({OwnerToken{row.uuid(0)}, std::string{row.text(1)},
                         std::string{row.text(2)}, row.instant(3), row.instant(4), row.integer(5),
                         row.integer(6)});
    });
    return workers;
  });
}

std::size_t Workers::forget(Duration unseen) {
  require_delay(unseen);
  Box& box = box_of(queue_);
  return box.write([&](Session& session) {
    return box.run(session, box.sql().worker_forget, {{"unseen", micros(unseen)}, box.now()});
  });
}

void Workers::heartbeat(const OwnerToken& owner, std::string_view name, std::string_view version,
                        std::int64_t done, std::int64_t failed, std::string_view handles,
                        Duration lives) {
  require_delay(lives);
  Box& box = box_of(queue_);
  box.write([&](Session& session) {
    box.run(session, box.sql().worker_heartbeat,
            {{"owner", Value{owner.uuid()}},
             {"name", name},
             {"version", version},
             {"done", done},
             {"failed", failed},
             {"handles", handles.empty() ? Value{} : Value{handles}},
             {"lives", micros(lives)},
             box.now()});
  });
}

void Workers::leave(const OwnerToken& owner) {
  Box& box = box_of(queue_);
  box.write([&](Session& session) {
    box.run(session, box.sql().worker_leave, {{"owner", Value{owner.uuid()}}});
  });
}

}  // namespace twinbox
