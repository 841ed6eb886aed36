// Two states side by side, as text.
#include <sstream>

#include "conformance/property/model.hpp"

namespace twinbox::test::model {
namespace {

template <class T>
std::ostream& operator<<(std::ostream& out, const std::optional<T>& value) {
  return value ? out << *value : out << "-";
}

std::ostream& operator<<(std::ostream& out, const Key& key) {
  return out << key.source << '/' << key.id;
}

std::ostream& operator<<(std::ostream& out, const DeliveryName& delivery) {
  return out << delivery.key << '#' << delivery.handler;
}

std::ostream& operator<<(std::ostream& out, const Fact& fact) {
  const Content& content = fact.content;
  return out << "topic " << content.topic << " payload " << content.payload << " hash "
             << content.hash << " key " << content.partition_key << " due " << content.due_at
             << " expires " << content.expires_at << " created " << fact.created_at << " last seen "
             << fact.last_seen_at << " seen " << fact.seen_count << " version "
             << fact.content_version;
}

std::ostream& operator<<(std::ostream& out, const Work& row) {
  return out << "id " << row.id << " visible " << row.visible_at << " lease " << row.lease_until
             << " expires " << row.expires_at << " owner " << row.owner << " key "
             << row.partition_key << " epoch " << row.epoch << " attempts " << row.attempts
             << " expiries " << row.expiries << " requeues " << row.requeues << " waiting "
             << row.waiting << " error " << row.last_error;
}

std::ostream& operator<<(std::ostream& out, const Outcome& row) {
  return out << "state " << row.state << " work " << row.delivery_id << " at " << row.finished_at
             << " by " << row.finished_by << " reason " << row.reason << " attempts "
             << row.attempts << " expiries " << row.expiries << " requeues " << row.requeues
             << " error " << row.last_error;
}

std::ostream& operator<<(std::ostream& out, const Hold& hold) {
  return out << "key " << hold.partition_key << " requeued " << hold.requeued;
}

template <class Map>
void compare(std::ostream& out, const char* what, const Map& expected, const Map& found) {
  for (const auto& [name, value] : expected) {
    const auto theirs = found.find(name);
    if (theirs == found.end()) {
      out << what << ' ' << name << "\n  expected " << value << "\n  found    nothing\n";
    } else if (!(theirs->second == value)) {
      out << what << ' ' << name << "\n  expected " << value << "\n  found    " << theirs->second
          << '\n';
    }
  }
  for (const auto& [name, value] : found) {
    if (!expected.contains(name)) {
      out << what << ' ' << name << "\n  expected nothing\n  found    " << value << '\n';
    }
  }
}

void list(std::ostream& out, const char* title, const std::multiset<FailureLine>& lines) {
  out << title << '\n';
  for (const FailureLine& line : lines) {
    out << "  " << line.delivery << " work " << line.delivery_id << " at " << line.failed_at
        << " by " << line.worker << " attempt " << line.attempt << " error " << line.error << '\n';
  }
}

}  // namespace

std::string difference(const State& expected, const State& found) {
  std::ostringstream out;
  compare(out, "message", expected.facts, found.facts);
  compare(out, "work", expected.work, found.work);
  compare(out, "outcome", expected.outcomes, found.outcomes);
  compare(out, "hold", expected.holds, found.holds);
  if (expected.failures != found.failures) {
    list(out, "failures expected", expected.failures);
    list(out, "failures found", found.failures);
  }
  return out.str();
}

}  // namespace twinbox::test::model
