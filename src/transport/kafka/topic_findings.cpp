#include "transport/kafka/topic_findings.hpp"

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;
using Level = Finding::Level;

/// Time for an operator to notice that no consumer reads, and to fix it, before records are
/// deleted.
constexpr std::chrono::milliseconds least_retention = 24h;

std::string change(const std::string& topic, const std::string& setting) {
  return "kafka-configs.sh --alter --entity-type topics --entity-name " + topic + " --add-config " +
         setting;
}

void judge_replicas(std::vector<Finding>& findings, const TopicSettings& topic) {
  const std::string name = "topic '" + topic.name + "'";
  if (topic.replicas < 2) {
    findings.push_back({"replicas", Level::warning,
                        name + " has one replica: confirmed records are lost with one broker",
                        "give it three with kafka-reassign-partitions.sh"});
    return;
  }
  if (!topic.min_insync) return;
  if (*topic.min_insync > topic.replicas) {
    findings.push_back(
        {"replicas", Level::error,
         name + " has " + std::to_string(topic.replicas) + " replicas and asks for " +
             std::to_string(*topic.min_insync) + " in sync: nothing can be written",
         change(topic.name, "min.insync.replicas=" + std::to_string(topic.replicas - 1))});
  } else if (*topic.min_insync < 2) {
    findings.push_back({"replicas", Level::warning,
                        name + " has min.insync.replicas=1: the leader alone may confirm, and "
                               "lose confirmed records",
                        change(topic.name, "min.insync.replicas=2")});
  }
}

}  // namespace

std::vector<Finding> findings_of(const TopicSettings& topic, bool consumed) {
  std::vector<Finding> findings;
  const std::string name = "topic '" + topic.name + "'";
  judge_replicas(findings, topic);
  if (topic.unclean_election.value_or(false)) {
    findings.push_back({"election", Level::warning,
                        name + " lets a replica lead that has missed confirmed records",
                        change(topic.name, "unclean.leader.election.enable=false")});
  }
  if (consumed && topic.retention && *topic.retention >= 0ms &&
      *topic.retention < least_retention) {
    findings.push_back(
        {"retention", Level::warning,
         name + " keeps records for " +
             std::to_string(std::chrono::floor<std::chrono::minutes>(*topic.retention).count()) +
             " minutes: unread records are lost then",
         change(topic.name, "retention.ms=604800000")});
  }
  if (topic.compacted.value_or(false)) {
    findings.push_back({"compaction", Level::warning,
                        name + " is compacted: of several records with one key the earlier may "
                               "be gone before they are read",
                        change(topic.name, "cleanup.policy=delete")});
  }
  if (findings.empty()) {
    findings.push_back({"topic", Level::ok,
                        name + " is there, with " + std::to_string(topic.replicas) + " replicas"});
  }
  return findings;
}

}  // namespace twinbox::kafka
